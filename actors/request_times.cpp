#include "actors/request_times.hpp"

#include <utility>

namespace troupe::actors {

void RequestTimes::arrives(RequestId request) {
  const std::lock_guard lock(mutex_);
  live_.try_emplace(request);
}

void RequestTimes::begins_prefill(RequestId request, std::int64_t now_us) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(request);
  if (found != live_.end() && !found->second.prefill_us) found->second.prefill_us = now_us;
}

std::optional<std::int64_t> RequestTimes::gets_tokens(RequestId request, std::int64_t now_us) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(request);
  if (found == live_.end()) return std::nullopt;
  const auto before = std::exchange(found->second.tokens_us, now_us);
  if (!before) return std::nullopt;
  return now_us - *before;
}

std::optional<std::int64_t> RequestTimes::ends(RequestId request) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(request);
  if (found == live_.end()) return std::nullopt;
  const auto prefill_us = found->second.prefill_us;
  live_.erase(found);
  return prefill_us;
}

} // namespace troupe::actors
