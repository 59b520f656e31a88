// Endings of requests in one window of time, and the rules that compare two windows.

#pragma once

#include "schedulers/registry/policy_set.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::sched {

/// What happened in a window. Goodput counts requests that ended well, per second. When fewer
/// requests are in the system than before, it says nothing of a policy: then their share counts.
class LatencyWindow {
public:
  explicit LatencyWindow(std::int64_t from_us = 0) : from_us_(from_us) {}

  /// @param tpot_us  -1 = fewer than two tokens
  /// @param live     requests in the system when this one ended
  void add(bool ok, std::int64_t ttft_us, std::int64_t tpot_us, std::int64_t preemptions,
           std::int64_t live);

  std::int64_t from_us() const noexcept { return from_us_; }
  std::int64_t requests() const noexcept { return requests_; }
  std::int64_t good() const noexcept { return good_; }
  std::int64_t preemptions() const noexcept { return preemptions_; }
  /// Requests in the system, the mean over all endings.
  std::int64_t live_mean() const noexcept { return requests_ > 0 ? live_sum_ / requests_ : 0; }
  /// Smallest value that 95 % of the requests do not exceed; -1 without any.
  std::int64_t ttft_p95_us() const { return p95(ttft_us_); }
  std::int64_t tpot_p95_us() const { return p95(tpot_us_); }

private:
  /// Beyond so many endings every second one is kept, then every fourth, and so on.
  static constexpr std::size_t kKept = 4096;

  static std::int64_t p95(std::vector<std::int64_t> values);
  void thin();

  std::int64_t from_us_;
  std::int64_t requests_ = 0, good_ = 0, preemptions_ = 0, live_sum_ = 0;
  std::int64_t stride_ = 1;
  std::vector<std::int64_t> ttft_us_, tpot_us_;
};

/// A window that is over.
struct PastWindow {
  LatencyWindow window;
  std::int64_t to_us = 0;
};

/// The first guardrail that `now` breaks against `before`, for a person; "" when none does, or when
/// one of the windows has too few requests to say anything.
///
/// Preemptions are compared per request, and one request in twenty counts as none.
std::string broken_guardrail(const ProbationSpec& rules, const PastWindow& before,
                             const PastWindow& now);

} // namespace troupe::sched
