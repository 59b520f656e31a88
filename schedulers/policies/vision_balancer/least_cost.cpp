#include "schedulers/policies/vision_balancer/least_cost.hpp"

#include "schedulers/policies/vision_balancer/fill.hpp"

#include <algorithm>
#include <numeric>

namespace troupe::sched {

Decision<Encoding> LeastCostVision::assign(const VisionQuery& query,
                                           const PolicyContext& /*ctx*/) noexcept {
  VisionFill fill(query);
  std::vector<std::size_t> order(query.images.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return query.images[a].patches > query.images[b].patches;
  });
  for (const std::size_t image : order) {
    const std::int64_t cost = fill.cost(image);
    std::size_t best = query.encoders.size();
    for (std::size_t encoder = 0; encoder < query.encoders.size(); ++encoder) {
      if (!fill.takes(encoder, cost)) continue;
      if (best == query.encoders.size() || fill.load(encoder) < fill.load(best)) best = encoder;
    }
    if (best < query.encoders.size()) fill.give(image, best);
  }
  return std::move(fill).finish();
}

} // namespace troupe::sched
