#include "schedulers/model/latency_window.hpp"

#include "schedulers/core/rng.hpp"

#include <algorithm>

namespace troupe::sched {
namespace {

constexpr std::int64_t kUsPerS = 1'000'000;
constexpr std::int64_t kPreemptionsIgnored = 50; ///< Per thousand requests.

/// Events per 1,000 seconds.
std::int64_t rate(std::int64_t count, const PastWindow& window) {
  const std::int64_t span_us = std::max<std::int64_t>(1, window.to_us - window.window.from_us());
  return static_cast<std::int64_t>(static_cast<Wide>(count) * 1000 * kUsPerS /
                                   static_cast<Wide>(span_us));
}

/// now > before * permille / 1000.
bool exceeds(std::int64_t now, std::int64_t before, std::int64_t permille) {
  if (now <= 0) return false;
  return static_cast<Wide>(now) * 1000 > static_cast<Wide>(before) * static_cast<Wide>(permille);
}

std::string ratio_text(std::int64_t permille) {
  const std::string thousandths = std::to_string(1000 + permille % 1000).substr(1);
  return std::to_string(permille / 1000) + "." + thousandths.substr(0, 2);
}

std::string slower(const char* what, const char* unit, std::int64_t before, std::int64_t now,
                   std::int64_t permille) {
  return std::string(what) + " went from " + std::to_string(before) + " to " + std::to_string(now) +
         " " + unit + ", more than " + ratio_text(permille) + " times";
}

std::int64_t per_thousand(std::int64_t count, const LatencyWindow& window) {
  return count * 1000 / std::max<std::int64_t>(1, window.requests());
}

/// Requests that ended well: as many a second when the system is as full as before, else as large a
/// share of those that ended.
std::string broken_goodput(const ProbationSpec& rules, const PastWindow& before,
                           const PastWindow& now) {
  const bool less_load = 2 * now.window.live_mean() < before.window.live_mean();
  const auto good = [&](const PastWindow& past) {
    return less_load ? per_thousand(past.window.good(), past.window)
                     : rate(past.window.good(), past);
  };
  const std::int64_t good_before = good(before);
  const std::int64_t good_now = good(now);
  if (static_cast<Wide>(good_now) * 1000 >=
      static_cast<Wide>(good_before) * static_cast<Wide>(rules.goodput_permille)) {
    return {};
  }
  return "goodput went from " + std::to_string(good_before) + " to " + std::to_string(good_now) +
         (less_load ? " in 1000 requests" : " requests in 1000 s") + ", less than " +
         ratio_text(rules.goodput_permille) + " times";
}

} // namespace

void LatencyWindow::add(bool ok, std::int64_t ttft_us, std::int64_t tpot_us,
                        std::int64_t preemptions, std::int64_t live) {
  ++requests_;
  good_ += ok ? 1 : 0;
  preemptions_ += preemptions;
  live_sum_ += live;
  if (!ok || requests_ % stride_ != 0) return;
  ttft_us_.push_back(ttft_us);
  if (tpot_us >= 0) tpot_us_.push_back(tpot_us);
  if (ttft_us_.size() >= kKept) thin();
}

void LatencyWindow::thin() {
  for (std::vector<std::int64_t>* values : {&ttft_us_, &tpot_us_}) {
    for (std::size_t i = 0; 2 * i < values->size(); ++i)
      (*values)[i] = (*values)[2 * i];
    values->resize((values->size() + 1) / 2);
  }
  stride_ *= 2;
}

std::int64_t LatencyWindow::p95(std::vector<std::int64_t> values) {
  if (values.empty()) return -1;
  const std::size_t at = (values.size() * 95 + 99) / 100 - 1;
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(at);
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

std::string broken_guardrail(const ProbationSpec& rules, const PastWindow& before,
                             const PastWindow& now) {
  const LatencyWindow& a = before.window;
  const LatencyWindow& b = now.window;
  if (a.requests() < rules.requests_min || b.requests() < rules.requests_min) return {};
  if (a.ttft_p95_us() > 0 && exceeds(b.ttft_p95_us(), a.ttft_p95_us(), rules.ttft_p95_permille)) {
    return slower("TTFT p95", "us", a.ttft_p95_us(), b.ttft_p95_us(), rules.ttft_p95_permille);
  }
  if (a.tpot_p95_us() > 0 && exceeds(b.tpot_p95_us(), a.tpot_p95_us(), rules.tpot_p95_permille)) {
    return slower("TPOT p95", "us", a.tpot_p95_us(), b.tpot_p95_us(), rules.tpot_p95_permille);
  }
  if (std::string worse = broken_goodput(rules, before, now); !worse.empty()) return worse;
  const std::int64_t seen_before = per_thousand(a.preemptions(), a);
  const std::int64_t seen_now = per_thousand(b.preemptions(), b);
  if (exceeds(seen_now, std::max(seen_before, kPreemptionsIgnored), rules.preemptions_permille)) {
    return slower("preemptions", "in 1000 requests", seen_before, seen_now,
                  rules.preemptions_permille);
  }
  return {};
}

} // namespace troupe::sched
