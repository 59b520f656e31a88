#include "schedulers/model/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace troupe::sched {
namespace {

__extension__ using Signed128 = __int128;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

std::int64_t saturated(Signed128 value) noexcept {
  return value > kMax ? kMax : static_cast<std::int64_t>(value);
}

/// factor·count for a count below 2^127 - 2^64, cut off just above the int64 range.
Signed128 product(std::int64_t factor, Signed128 count) noexcept {
  if (factor <= 0 || count <= 0) return 0;
  constexpr Signed128 kOver = static_cast<Signed128>(kMax) + 1;
  return count > kMax / factor ? std::max<Signed128>(kOver, count) : factor * count;
}

/// The marginal cost, exact up to the int64 range and above it when it is larger.
Signed128 marginal(const CostModel& model, std::int64_t n, std::int64_t c) noexcept {
  if (n <= 0) return 0;
  const Signed128 tokens = n;
  const Signed128 before = std::max<std::int64_t>(c, 0);
  // (n < 2^63, c < 2^63): n·c + n(n+1)/2 stays below 2^127.
  const Signed128 pairs = tokens * before + tokens * (tokens + 1) / 2;
  constexpr Signed128 kOver = static_cast<Signed128>(kMax) + 1;
  return std::min(product(model.token_ps, tokens), kOver) +
         std::min(product(model.pair_ps, pairs), kOver);
}

/// The closed form of policies.md 1.3 with t0 = 0, in the shape that loses no digits for small b.
std::int64_t closed_form(const CostModel& model, std::int64_t budget_ps, std::int64_t c) noexcept {
  const double b = static_cast<double>(model.pair_ps);
  const double a = static_cast<double>(model.token_ps) +
                   b * static_cast<double>(std::max<std::int64_t>(c, 0)) + b / 2;
  const double budget = static_cast<double>(budget_ps);
  const double n = 2 * budget / (a + std::sqrt(a * a + 2 * b * budget));
  if (!(n < 9.0e18)) return kMax - 1;
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(n));
}

} // namespace

std::int64_t CostModel::marginal_ps(std::int64_t n, std::int64_t c) const noexcept {
  return saturated(marginal(*this, n, c));
}

std::int64_t CostModel::chunk_ps(std::int64_t n, std::int64_t c) const noexcept {
  return saturated(marginal(*this, n, c) + step_ps);
}

std::int64_t CostModel::saturated_load_ps(std::int64_t sequences,
                                          std::int64_t context_tokens) const noexcept {
  return saturated(std::min<Signed128>(product(sequence_ps, sequences), kMax) +
                   std::min<Signed128>(product(context_token_ps, context_tokens), kMax));
}

std::int64_t CostModel::largest_chunk(std::int64_t budget_ps, std::int64_t c) const noexcept {
  if (budget_ps < 0) return 0;
  if (token_ps <= 0 && pair_ps <= 0) return kMax;
  const auto fits = [&](std::int64_t n) { return marginal(*this, n, c) <= budget_ps; };
  // Exact T moves the guess: widen to a bracket [low fits, high does not], then halve it.
  std::int64_t low = closed_form(*this, budget_ps, c);
  std::int64_t high = low;
  std::int64_t stride = 1;
  if (fits(low)) {
    do {
      low = high;
      high = high > kMax - stride ? kMax : high + stride;
      stride = stride > kMax / 2 ? kMax : stride * 2;
      if (high == kMax && fits(high)) return kMax;
    } while (fits(high));
  } else {
    do {
      high = low;
      low = std::max<std::int64_t>(0, low - stride);
      stride = stride > kMax / 2 ? kMax : stride * 2;
    } while (!fits(low));
  }
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

} // namespace troupe::sched
