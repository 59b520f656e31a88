// Chooses the encoder of each waiting image.
//
// Images of one request may go to different encoders; their embeddings meet at the prefill rank.

#pragma once

#include "schedulers/core/ids.hpp"
#include "schedulers/core/result.hpp"
#include "schedulers/policy/policy.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::sched {

/// Relative cost of an image: linear work of its patches and attention between them.
struct ImageCost {
  std::int64_t per_patch = 900'000'000; ///< FLOP: 2 · 0.45e9 parameters.
  std::int64_t per_pair = 131'072;      ///< FLOP: 4 · 1024 · 32.

  /// Saturates. @pre patches >= 0
  std::int64_t of(std::int64_t patches) const noexcept;
};

struct ImageView {
  RequestRef ref;
  std::int64_t index = 0;   ///< Among the images of its request.
  std::int64_t patches = 0; ///< Of the planned size: after resizing.
};

struct EncoderView {
  RankId rank{};
  std::int64_t outstanding = 0; ///< Cost of what waits and runs there.
  bool draining = false;
};

struct VisionQuery {
  std::span<const ImageView> images;     ///< In order of arrival.
  std::span<const EncoderView> encoders; ///< Ascending by RankId.
  ImageCost cost;
  std::int64_t budget = 0; ///< Most outstanding cost of an encoder; 0 = no limit.
};

struct Encoding {
  static constexpr std::int32_t kWaits = -1;
  std::vector<std::int32_t> encoders; ///< [images] place of the encoder, or kWaits.
};

/// Assigns images to encoders.
///
/// Contract, on top of the one in policy.hpp:
///   Cost     O(images · (log images + encoders))
///   Errors   no value, with a reason, when no encoder takes anything
///   @post    no draining encoder gets an image; one with work gets none beyond the budget
///
/// Source: policies.md section 8, vision cost.
class VisionBalancer : public Policy {
public:
  virtual Decision<Encoding> assign(const VisionQuery& query,
                                    const PolicyContext& ctx) noexcept = 0;
};

/// Ok, or an error that says which rule of the interface the decision breaks. Pure.
Status validate(const Decision<Encoding>& decision, const VisionQuery& query);

} // namespace troupe::sched
