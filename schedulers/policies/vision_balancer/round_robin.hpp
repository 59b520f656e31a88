// Encoders in turn, whatever an image costs.

#pragma once

#include "schedulers/policy/vision_balancer.hpp"

#include <cstdint>
#include <string>

namespace troupe::sched {

/// State: the encoder chosen last. Takes no options.
class RoundRobinVision final : public VisionBalancer {
public:
  Decision<Encoding> assign(const VisionQuery& query, const PolicyContext& ctx) noexcept override;
  std::string export_state() const override;
  void import_state(const std::string& state) override;

private:
  std::int64_t last_ = -1; ///< Number of the rank chosen last; -1 = none yet.
};

} // namespace troupe::sched
