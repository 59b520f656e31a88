#include "schedulers/policies/vision_balancer/round_robin.hpp"

#include "schedulers/policies/vision_balancer/fill.hpp"

#include <charconv>

namespace troupe::sched {

Decision<Encoding> RoundRobinVision::assign(const VisionQuery& query,
                                            const PolicyContext& /*ctx*/) noexcept {
  VisionFill fill(query);
  for (std::size_t image = 0; image < query.images.size(); ++image) {
    const std::int64_t cost = fill.cost(image);
    std::size_t chosen = query.encoders.size();
    for (std::size_t encoder = 0; encoder < query.encoders.size(); ++encoder) {
      if (!fill.takes(encoder, cost)) continue;
      if (chosen == query.encoders.size()) chosen = encoder;
      if (static_cast<std::int64_t>(raw(query.encoders[encoder].rank)) > last_) {
        chosen = encoder;
        break;
      }
    }
    if (chosen == query.encoders.size()) continue;
    last_ = static_cast<std::int64_t>(raw(query.encoders[chosen].rank));
    fill.give(image, chosen);
  }
  return std::move(fill).finish();
}

std::string RoundRobinVision::export_state() const { return std::to_string(last_); }

void RoundRobinVision::import_state(const std::string& state) {
  std::int64_t last = -1;
  const auto parsed = std::from_chars(state.data(), state.data() + state.size(), last);
  last_ = parsed.ec == std::errc{} ? last : -1;
}

} // namespace troupe::sched
