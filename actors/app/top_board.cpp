#include "actors/app/top_board.hpp"

#include <algorithm>

namespace troupe::app {

namespace {

constexpr std::int64_t kSecondUs = 1'000'000;
constexpr std::int64_t kWindowUs = 5 * kSecondUs; ///< That rates are taken over.
constexpr std::int64_t kApartUs = kSecondUs / 4;  ///< Points closer than that replace each other.

} // namespace

void TopBoard::publish(const TopJob& job, std::int64_t now_us) {
  const std::lock_guard lock(mutex_);
  job_ = job;
  const Point point{now_us, job.prompt_tokens, job.output_tokens};
  const auto old = std::find_if(points_.begin(), points_.end(),
                                [&](const Point& one) { return now_us - one.at_us <= kWindowUs; });
  points_.erase(points_.begin(), old);
  const bool is_close = points_.size() > 1 && now_us - points_[points_.size() - 2].at_us < kApartUs;
  if (is_close) points_.pop_back();
  points_.push_back(point);
}

TopSample TopBoard::sample(std::int64_t now_us) const {
  const std::lock_guard lock(mutex_);
  TopSample out;
  out.at_us = now_us;
  out.job = job_;
  if (points_.size() < 2) return out;
  const Point& first = points_.front();
  const Point& last = points_.back();
  const std::int64_t span_us = std::max(last.at_us, now_us) - first.at_us;
  if (span_us <= 0) return out;
  out.prompt_tokens_per_s = (last.prompt_tokens - first.prompt_tokens) * kSecondUs / span_us;
  out.output_tokens_per_s = (last.output_tokens - first.output_tokens) * kSecondUs / span_us;
  return out;
}

} // namespace troupe::app
