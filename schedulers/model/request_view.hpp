// What a policy may see of a request: lengths and times, never text.

#pragma once

#include "schedulers/core/ids.hpp"

#include <algorithm>
#include <cstdint>

namespace troupe::sched {

/// How much room placement reserves for a request on a rank that decodes.
enum class Reservation : std::uint8_t {
  worst,    ///< Prompt and new tokens at most; where that never fits, the request never fits.
  expected, ///< Prompt and the expected answer; it grows while it decodes, and may be preempted.
  shielded, ///< Preempted as often as allowed: the worst case or a whole rank, never preempted.
};

/// What placement knows of a request besides its lengths.
struct Claim {
  Reservation reservation = Reservation::worst;
  std::int64_t expected_p50 = 0; ///< Tokens of the whole answer, half are shorter; 0 = not known.
  std::int64_t expected_p90 = 0; ///< What `expected` reserves: a higher quantile; 0 = not known.
  std::int64_t preemptions = 0;  ///< So far.
  bool operator==(const Claim&) const = default;
};

/// One request as a policy sees it. All counts in tokens.
struct RequestView {
  RequestRef ref;
  std::uint64_t session_hash = 0; ///< Equal for requests of one conversation; 0 = unknown.
  std::uint64_t tenant_hash = 0;  ///< hash64 of the tenant's name; equal for one tenant.
  std::int64_t priority = 0;      ///< Higher is more urgent, where a policy looks at it.
  std::int64_t arrival_us = 0;
  std::int64_t deadline_us = 0; ///< 0 = none.
  std::int64_t prompt = 0;
  std::int64_t answered = 0; ///< Output tokens of earlier attempts: prefilled with the prompt.
  std::int64_t done = 0;     ///< Of prompt + answered, computed already.
  std::int64_t new_tokens_max = 0;
  std::int64_t work_ps = 0; ///< Marginal cost of what is left to prefill.
  Claim claim;
  bool operator==(const RequestView&) const = default;

  constexpr std::int64_t total() const noexcept { return prompt + answered; }
  constexpr std::int64_t remaining() const noexcept { return total() - done; }
  /// Positions held at most.
  constexpr std::int64_t positions_max() const noexcept { return prompt + new_tokens_max; }
  /// Positions without which it cannot go on at all: what decides whether it ever fits. A prefill
  /// draws one more token, which may be the last one.
  constexpr std::int64_t positions_least() const noexcept {
    return claim.reservation == Reservation::worst ? positions_max()
                                                   : std::min(positions_max(), total());
  }
  /// Positions to reserve where it decodes. An answer beyond its expectation is expected to get
  /// half as long again, so that each placement after a preemption lasts longer.
  constexpr std::int64_t positions_reserved() const noexcept {
    if (claim.reservation != Reservation::expected || claim.expected_p90 <= 0) {
      return positions_max();
    }
    const std::int64_t longer = answered > 0 ? answered + answered / 2 + 1 : 1;
    return std::min(positions_max(), prompt + std::max(claim.expected_p90, longer));
  }
};

} // namespace troupe::sched
