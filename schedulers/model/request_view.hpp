// What a policy may see of a request: lengths and times, never text.

#pragma once

#include "schedulers/core/ids.hpp"

#include <cstdint>

namespace troupe::sched {

/// One request as a policy sees it. All counts in tokens.
struct RequestView {
  RequestRef ref;
  std::uint64_t session_hash = 0; ///< Equal for requests of one conversation; 0 = unknown.
  std::int64_t arrival_us = 0;
  std::int64_t deadline_us = 0; ///< 0 = none.
  std::int64_t prompt = 0;
  std::int64_t answered = 0; ///< Output tokens of earlier attempts: prefilled with the prompt.
  std::int64_t done = 0;     ///< Of prompt + answered, computed already.
  std::int64_t new_tokens_max = 0;
  std::int64_t work_ps = 0; ///< Marginal cost of what is left to prefill.

  constexpr std::int64_t total() const noexcept { return prompt + answered; }
  constexpr std::int64_t remaining() const noexcept { return total() - done; }
  /// Positions held at most.
  constexpr std::int64_t positions_max() const noexcept { return prompt + new_tokens_max; }
};

} // namespace troupe::sched
