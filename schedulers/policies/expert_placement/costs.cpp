// Time of moves against time gained by balance.

#include "schedulers/model/integer_math.hpp"
#include "schedulers/policy/expert_placement.hpp"

#include <algorithm>

namespace troupe::sched {

std::int64_t move_ps(const ExpertMoveCosts& costs, std::int64_t moves) noexcept {
  constexpr std::int64_t kPicosPerSecond = 1'000'000'000'000;
  const std::int64_t bytes = multiply_saturated(moves, costs.expert_bytes);
  return scale(bytes, kPicosPerSecond, std::max<std::int64_t>(1, costs.link_bytes_per_s));
}

bool worth_moving(const ExpertMoveCosts& costs, std::int64_t before_millionths,
                  std::int64_t after_millionths, std::int64_t moves) noexcept {
  if (costs.layer_ps <= 0) return after_millionths < before_millionths;
  const Int128 per_step =
      static_cast<Int128>(before_millionths - after_millionths) * costs.layer_ps / 1'000'000;
  return saturate(per_step * costs.steps) >
         saturate(static_cast<Int128>(move_ps(costs, moves)) + costs.disturbance_ps);
}

} // namespace troupe::sched
