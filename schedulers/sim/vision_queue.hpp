// Images in virtual time: a policy gives them to encoders, and a request is prefilled when all of
// its images are encoded.

#pragma once

#include "schedulers/policy/vision_balancer.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::sim {

/// A request with at least one image.
struct VisionArrival {
  std::int64_t at_us = 0;
  std::vector<std::int64_t> patches; ///< [images] of the planned sizes.
  std::int64_t text_tokens = 0;
};

struct VisionQueueOptions {
  std::uint32_t encoders = 1;
  std::int64_t flop_per_us = 1'000'000'000; ///< Of one encoder: a PFLOP/s.
  std::int64_t prefill_token_ps = 10'200'000;
  sched::ImageCost cost;      ///< What encoding takes.
  sched::ImageCost told_cost; ///< What the policy is told it takes.
  std::int64_t budget = 0;    ///< As in VisionQuery.
};

/// What a run came to.
struct VisionTotals {
  std::vector<std::int64_t> encoded_us; ///< [requests] from arrival to the last image.
  std::vector<std::int64_t> ttft_us;    ///< [requests] from arrival to the end of the prefill.
  std::vector<std::int64_t> busy_us;    ///< [encoders]
  std::int64_t images = 0;              ///< Encoded, each once.
  std::int64_t invalid = 0;             ///< Answers that broke a rule; the images wait.
  std::int64_t idle_beside_work = 0;    ///< Times an encoder was left idle while images waited.
};

/// Serves `arrivals`, which ascend by time, to the end: encoders take their images one after the
/// other, one prefill rank takes finished requests in the order in which they finish. The policy is
/// asked at every arrival and whenever an image is done, about all images that wait.
VisionTotals run_vision(sched::VisionBalancer& policy, std::span<const VisionArrival> arrivals,
                        const VisionQueueOptions& options);

} // namespace troupe::sim
