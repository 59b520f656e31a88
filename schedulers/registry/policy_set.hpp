// One policy set as plain data: what is swapped, recorded and sent to every stage.
//
// Stages never share policy objects: each builds its own instances from the set, so that a policy
// needs no lock.

#pragma once

#include "schedulers/core/ids.hpp"
#include "schedulers/core/options.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe::sched {

/// The policy chosen for one kind, with the options the user wrote.
struct PolicySpec {
  std::string policy;  ///< Registered name, as "least_work".
  OptionTable options; ///< Without the key `policy`.
};

/// A shared object that brings policies of its own.
struct LibrarySpec {
  std::string path;   ///< As resolved: absolute.
  std::string digest; ///< XXH3-128 of its bytes in hexadecimal; "" = not looked at yet.
  bool lane = true;   ///< Calls run on a thread of their own, with a deadline.
  std::int64_t decide_us = 1000;
  std::int64_t create_ms = 5000;
};

/// Guardrails after a swap: ratios to the window before it, in thousandths.
struct ProbationSpec {
  std::int64_t window_us = 30'000'000; ///< 0 = no probation: a set passes at once.
  std::int64_t requests_min = 50;      ///< Fewer endings in a window say nothing.
  std::int64_t ttft_p95_permille = 1500;
  std::int64_t tpot_p95_permille = 1500;
  std::int64_t goodput_permille = 800;
  std::int64_t preemptions_permille = 2000;
};

/// A named set; a kind that is left out uses its documented default.
struct PolicySet {
  PolicyEpoch epoch{1};
  std::string name = "default";
  std::string text;                        ///< Of the policy file; "" = the compiled-in set.
  std::string file;                        ///< Where it was read; for messages only.
  std::map<std::string, PolicySpec> kinds; ///< Kind name ("prefill_router") to choice.
  std::vector<LibrarySpec> libraries;
  ProbationSpec probation;
  std::map<std::string, PolicySpec> shadow; ///< Asked the same questions; never acts.
  std::map<std::string, PolicySpec> canary; ///< Acts on a share of the sessions.
  std::int64_t canary_permille = 0;
};

/// Whether a session belongs to the share of the canary: the same answer on every stage, always.
bool in_canary_share(std::uint64_t session_hash, std::int64_t permille) noexcept;

} // namespace troupe::sched
