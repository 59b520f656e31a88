// What every policy of a kind must keep before it is let near a running system: one suite for
// built-in and loaded ones.

#pragma once

#include "schedulers/core/result.hpp"
#include "schedulers/policy/policy.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace troupe::sched::conformance {

/// What a check found. A check that is no more than a hint is ok with a detail.
struct Finding {
  bool ok = true;
  std::string detail; ///< Full sentence or ""; what broke names question and seed.
};

/// Makes instances of the policy under test, each with the same options.
using Maker = std::function<Result<std::unique_ptr<Policy>>()>;

struct SuiteOptions {
  std::uint64_t seed = 1;               ///< Of all questions.
  std::int64_t questions = 300;         ///< Of each check that asks random ones; >= 1.
  std::int64_t rounds = 10'000;         ///< Of the loops that look for starvation; >= 1,000.
  std::int64_t decide_us = 0;           ///< A call takes at most so long; 0 = calls are not timed.
  std::function<std::int64_t()> now_us; ///< Reads a clock for `decide_us`; may be empty without.
};

/// Who hears of checks. `begin` comes before a check runs, so that a crash can be told by name.
struct Listener {
  std::function<void(const std::string& check)> begin;
  std::function<void(const std::string& check, const Finding& finding)> end;
};

/// Runs the suite of `kind`; whether every check was ok. A policy that cannot be created, or whose
/// calls are too slow, is not asked further. @pre has_suite(kind)
bool run_suite(const std::string& kind, const Maker& maker, const SuiteOptions& options,
               const Listener& listener);

/// Whether questions of this kind exist.
bool has_suite(const std::string& kind);

} // namespace troupe::sched::conformance
