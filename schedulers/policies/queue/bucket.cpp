#include "schedulers/policies/queue/bucket.hpp"

#include "schedulers/model/integer_math.hpp"
#include "schedulers/policies/queue/sorted.hpp"

#include <algorithm>

namespace troupe::sched {

std::int64_t bucket_of(std::int64_t work_ps, const BucketOptions& options) noexcept {
  constexpr std::int64_t kPicosPerMicro = 1'000'000;
  std::int64_t most_ps = multiply_saturated(options.first_us, kPicosPerMicro);
  std::int64_t bucket = 0;
  while (work_ps > most_ps) { // At most 32 times: then the bound is saturated.
    most_ps = multiply_saturated(most_ps, 4);
    ++bucket;
  }
  return bucket;
}

std::int64_t bucket_after(std::int64_t bucket, std::int64_t waited_us,
                          const BucketOptions& options) noexcept {
  std::int64_t step_us = options.age_us;
  for (std::int64_t k = 0; k < bucket; ++k)
    step_us = multiply_saturated(step_us, 4);
  return std::max<std::int64_t>(0, bucket - std::max<std::int64_t>(0, waited_us) / step_us);
}

Decision<Order> BucketQueue::order(std::span<const RequestView> waiting,
                                   const PolicyContext& ctx) noexcept {
  const auto bucket = [&](const RequestView& request) {
    return bucket_after(bucket_of(request.work_ps, options_), ctx.now_us - request.arrival_us,
                        options_);
  };
  return {order_by(waiting, bucket), Reason::lowest_score};
}

} // namespace troupe::sched
