// What the vision balancers share: outstanding cost as images are given out.

#pragma once

#include "schedulers/model/queue_estimate.hpp"
#include "schedulers/policy/vision_balancer.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace troupe::sched {

/// Gives images to encoders and keeps their loads.
class VisionFill {
public:
  explicit VisionFill(const VisionQuery& query) : query_(query) {
    encoding_.encoders.assign(query.images.size(), Encoding::kWaits);
    for (const EncoderView& encoder : query.encoders)
      load_.push_back(encoder.outstanding);
  }

  std::int64_t cost(std::size_t image) const {
    return query_.cost.of(query_.images[image].patches);
  }
  std::int64_t load(std::size_t encoder) const { return load_[encoder]; }
  /// An idle encoder takes any image, so that none waits for ever.
  bool takes(std::size_t encoder, std::int64_t cost) const {
    if (query_.encoders[encoder].draining) return false;
    return query_.budget <= 0 || load_[encoder] == 0 ||
           add_saturated(load_[encoder], cost) <= query_.budget;
  }
  void give(std::size_t image, std::size_t encoder) {
    encoding_.encoders[image] = static_cast<std::int32_t>(encoder);
    load_[encoder] = add_saturated(load_[encoder], cost(image));
    ++given_;
  }
  Decision<Encoding> finish() && {
    if (query_.images.empty()) return {std::nullopt, Reason::nothing_to_do};
    if (given_ == 0) return {std::nullopt, Reason::no_room};
    const bool all = given_ == query_.images.size();
    return {std::move(encoding_), all ? Reason::within_budget : Reason::budget_reached};
  }

private:
  const VisionQuery& query_;
  Encoding encoding_;
  std::vector<std::int64_t> load_;
  std::size_t given_ = 0;
};

} // namespace troupe::sched
