// What clients ask: synthetic requests within stated ranges, or the rows of a recorded trace.

#pragma once

#include "schedulers/core/ids.hpp"
#include "schedulers/sim/range.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::sim {

/// One client's share of the requests.
struct TenantSpec {
  std::string name;
  std::int64_t share = 1; ///< Relative to the others.
};

/// A row of a trace.
struct TraceRow {
  std::int64_t at_us = 0; ///< From the first row.
  std::int64_t prompt = 1;
  std::int64_t output = 1;
};

enum class Arrivals : std::uint8_t {
  within, ///< Each `window_us` after the start.
  gaps,   ///< One after the other, `gap_us` apart.
  poisson ///< One after the other, gaps of an exponential distribution with the mean `gap_us`.
};

/// Requests as a scenario states them. Counts in tokens, rates of a thousand.
struct WorkloadSpec {
  Range requests = 100;
  Arrivals arrivals = Arrivals::within;
  Range start_us = 5'000;
  Range window_us = {0, 200'000};
  Range gap_us = 10'000;
  Range prompt = {1, 40};
  Range new_tokens = {1, 20};
  std::int64_t ends_itself_permille = 0; ///< Answers that end before new_tokens are reached.
  std::int64_t abandon_permille = 0;     ///< Clients that leave.
  std::int64_t stop_permille = 0;        ///< Answers in which a stop string is found.
  Range leave_after_us = {0, 300'000};   ///< Of both, from arrival.
  std::vector<TenantSpec> tenants;
  std::vector<TraceRow> rows; ///< Instead of all above but tenants and rates, when not empty.
};

/// One request of a run.
struct RequestPlan {
  RequestId request{};
  std::uint64_t seed = 0; ///< Of its tokens.
  std::int64_t at_us = 0;
  std::int64_t prompt = 1;
  std::int64_t new_tokens_max = 1;
  std::int64_t answer_tokens = 0; ///< Where the answer ends by itself; 0 = nowhere.
  std::int64_t abandon_at_us = -1;
  std::int64_t stop_at_us = -1;
  std::int64_t priority = 0;
  std::string tenant;
  std::uint64_t session_hash = 0; ///< As in Arrive.

  /// Tokens of a complete answer that nobody cuts short.
  std::int64_t answer_length() const noexcept {
    return answer_tokens > 0 && answer_tokens < new_tokens_max ? answer_tokens : new_tokens_max;
  }
};

/// Requests 1, 2, ... in the order of their arrival. Pure.
std::vector<RequestPlan> make_workload(const WorkloadSpec& spec, Rng& rng);

/// A gap of an exponential distribution with that mean, by integer arithmetic. Pure.
std::int64_t exponential(std::int64_t mean, Rng& rng);

} // namespace troupe::sim
