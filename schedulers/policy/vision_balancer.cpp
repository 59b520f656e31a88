#include "schedulers/policy/vision_balancer.hpp"

#include "schedulers/model/integer_math.hpp"
#include "schedulers/model/queue_estimate.hpp"

#include <cstddef>

namespace troupe::sched {

std::int64_t ImageCost::of(std::int64_t patches) const noexcept {
  const std::int64_t pairs = multiply_saturated(patches, patches);
  return add_saturated(multiply_saturated(per_patch, patches), multiply_saturated(per_pair, pairs));
}

Status validate(const Decision<Encoding>& decision, const VisionQuery& query) {
  const auto broken = [](const char* what) { return Status(ErrorCode::bad_argument, what); };
  if (decision.reason == Reason::unset) return broken("a decision carries no reason");
  if (!decision.value) return {};
  if (decision.value->encoders.size() != query.images.size()) {
    return broken("another number of answers than images");
  }
  std::vector<std::int64_t> added(query.encoders.size(), 0);
  for (std::size_t i = 0; i < query.images.size(); ++i) {
    const std::int32_t chosen = decision.value->encoders[i];
    if (chosen == Encoding::kWaits) continue;
    if (chosen < 0 || static_cast<std::size_t>(chosen) >= query.encoders.size()) {
      return broken("an image goes to no encoder of the view");
    }
    const auto at = static_cast<std::size_t>(chosen);
    if (query.encoders[at].draining) return broken("an image goes to an encoder that drains");
    const std::int64_t before = add_saturated(query.encoders[at].outstanding, added[at]);
    const std::int64_t cost = query.cost.of(query.images[i].patches);
    if (query.budget > 0 && before > 0 && add_saturated(before, cost) > query.budget) {
      return broken("an encoder gets more than its budget");
    }
    added[at] = add_saturated(added[at], cost);
  }
  return {};
}

} // namespace troupe::sched
