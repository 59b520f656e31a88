// What a run came to: counts, times as integers, decisions by reason. Equal runs, equal bytes.

#pragma once

#include "schedulers/core/error_codes.hpp"
#include "schedulers/core/rng.hpp"
#include "schedulers/model/reason.hpp"
#include "schedulers/sim/outcomes.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace troupe::sim {

/// What a request must meet to count as goodput; 0 = no target.
struct Targets {
  std::int64_t ttft_us = 0;
  std::int64_t tpot_us = 0; ///< Mean gap between tokens.
};

/// Quantiles of integers: the smallest value that so many thousandths are not above.
struct Quantiles {
  std::int64_t count = 0, p50 = 0, p95 = 0, p99 = 0, highest = 0;
  bool operator==(const Quantiles&) const = default;
};

/// Quantiles of `values`, which are sorted for it. Zeros without values.
Quantiles quantiles_of(std::vector<std::int64_t>& values);

/// Counted while a run goes on.
struct Tally {
  static constexpr std::size_t kReasons = 64;

  struct Decisions {
    std::string kind;
    std::string policy;
    std::array<std::int64_t, kReasons> by_reason{};
  };
  std::vector<Decisions> decisions; ///< In the order of their first record.
  std::int64_t kv_blocks_total = 0; ///< Of all ranks, dead ones included.
  std::int64_t kv_blocks_held = 0;  ///< Now.
  std::int64_t kv_blocks_peak = 0;
  Wide kv_block_us = 0; ///< Held blocks over time.
  std::int64_t last_us = 0;

  void decision(const std::string& kind, const std::string& policy, sched::Reason reason);
  /// Blocks in use were `kv_blocks_held` since last_us.
  void pass(std::int64_t now_us);
  void hold(std::int64_t change);
};

/// A decision count as it is printed.
struct DecisionCount {
  std::string kind;
  std::string policy;
  sched::Reason reason = sched::Reason::unset;
  std::int64_t count = 0;
  bool operator==(const DecisionCount&) const = default;
};

struct Report {
  std::uint64_t seed = 0;
  std::int64_t requests = 0;
  std::vector<std::pair<ErrorCode, std::int64_t>> endings; ///< Ascending by code.
  std::int64_t unfinished = 0;
  std::int64_t tokens_in = 0, tokens_out = 0; ///< Of requests that ended ok.
  Quantiles ttft_us, tpot_us, e2e_us;         ///< Of requests that ended ok.
  std::int64_t good = 0;                      ///< Ended ok and met the targets.
  std::int64_t span_us = 0;                   ///< First arrival to last ending.
  std::int64_t retried = 0;                   ///< Attempts after the first ones.
  std::int64_t preempted = 0;                 ///< Times that a request gave up its room.
  std::int64_t handoffs = 0, handoffs_retried = 0, in_place = 0;
  std::int64_t refused = 0, stale_dropped = 0, invalid_decisions = 0;
  std::int64_t kv_use_permille = 0, kv_peak_permille = 0;
  std::int64_t events = 0, messages = 0, messages_lost = 0, faults = 0;
  std::vector<DecisionCount> decisions; ///< By kind, policy, reason.
  std::uint64_t trace_hash = 0;
  std::uint64_t final_draw = 0;

  std::int64_t ended(ErrorCode code) const noexcept;
  /// Requests a second that met the targets, in thousandths.
  std::int64_t goodput_milli() const noexcept;
};

/// Fills what follows from the outcomes.
void add_outcomes(Report& report, const std::vector<Outcome>& outcomes, const Targets& targets);
/// Fills KV use and decisions.
void add_tally(Report& report, const Tally& tally);

/// The report for a person, one fact a line. Pure.
std::string report_text(const Report& report);
/// The same as one JSON object without newline. Pure.
std::string report_json(const Report& report);

} // namespace troupe::sim
