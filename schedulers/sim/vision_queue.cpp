#include "schedulers/sim/vision_queue.hpp"

#include "schedulers/sim/event_queue.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>

namespace troupe::sim {
namespace {

constexpr std::int64_t kPatchesPerToken = 9;

class Queue {
public:
  Queue(sched::VisionBalancer& policy, std::span<const VisionArrival> arrivals,
        const VisionQueueOptions& options)
      : policy_(policy), arrivals_(arrivals), options_(options) {
    for (std::uint32_t id = 0; id < options.encoders; ++id)
      views_.push_back({RankId{id}, 0, false});
    encoders_.resize(options.encoders);
    totals.busy_us.assign(options.encoders, 0);
    totals.encoded_us.assign(arrivals.size(), 0);
    totals.ttft_us.assign(arrivals.size(), 0);
    for (std::size_t request = 0; request < arrivals.size(); ++request) {
      left_.push_back(static_cast<std::int64_t>(arrivals[request].patches.size()));
      events_.push(arrivals[request].at_us, {Event::kArrival, request});
    }
  }

  void run() {
    while (!events_.empty()) {
      now_us_ = events_.next_us();
      const Event event = events_.pop();
      if (event.encoder == Event::kArrival) {
        arrive(event.request);
      } else {
        finish(static_cast<std::size_t>(event.encoder));
      }
      ask();
    }
  }

  VisionTotals totals;

private:
  struct Event {
    static constexpr std::int64_t kArrival = -1;
    std::int64_t encoder = kArrival; ///< Whose image is done.
    std::size_t request = 0;         ///< That arrives.
  };
  struct Image {
    std::size_t request = 0;
    std::int64_t patches = 0;
  };

  void arrive(std::size_t request) {
    std::int64_t index = 0;
    for (const std::int64_t patches : arrivals_[request].patches) {
      waiting_.push_back({request, patches});
      asked_.push_back({{RequestId{request}, Attempt{1}}, index++, patches});
    }
  }

  void begin(std::size_t encoder) {
    const std::int64_t cost = options_.cost.of(encoders_[encoder].front().patches);
    const std::int64_t us = (cost + options_.flop_per_us - 1) / options_.flop_per_us;
    totals.busy_us[encoder] += us;
    events_.push(now_us_ + us, {static_cast<std::int64_t>(encoder), 0});
  }

  void finish(std::size_t encoder) {
    const Image image = encoders_[encoder].front();
    encoders_[encoder].pop_front();
    views_[encoder].outstanding -= options_.told_cost.of(image.patches);
    ++totals.images;
    if (!encoders_[encoder].empty()) begin(encoder);
    if (--left_[image.request] == 0) prefill(image.request);
  }

  void prefill(std::size_t request) {
    const VisionArrival& arrival = arrivals_[request];
    std::int64_t tokens = arrival.text_tokens;
    for (const std::int64_t patches : arrival.patches)
      tokens += patches / kPatchesPerToken;
    const std::int64_t us = tokens * options_.prefill_token_ps / 1'000'000;
    prefill_until_us_ = std::max(prefill_until_us_, now_us_) + us;
    totals.encoded_us[request] = now_us_ - arrival.at_us;
    totals.ttft_us[request] = prefill_until_us_ - arrival.at_us;
  }

  void ask() {
    if (waiting_.empty()) return;
    const sched::VisionQuery query{asked_, views_, options_.told_cost, options_.budget};
    sched::PolicyContext ctx;
    ctx.now_us = now_us_;
    ctx.rng = &rng_;
    ctx.cost_model = &model_;
    const auto decision = policy_.assign(query, ctx);
    if (!sched::validate(decision, query).ok()) {
      ++totals.invalid;
      return;
    }
    if (decision.value) give(decision.value->encoders);
    if (waiting_.empty()) return;
    totals.idle_beside_work +=
        std::count_if(encoders_.begin(), encoders_.end(), [](const auto& e) { return e.empty(); });
  }

  void give(const std::vector<std::int32_t>& chosen) {
    std::size_t stay = 0;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      if (chosen[i] == sched::Encoding::kWaits) {
        waiting_[stay] = waiting_[i];
        asked_[stay++] = asked_[i];
        continue;
      }
      const auto encoder = static_cast<std::size_t>(chosen[i]);
      views_[encoder].outstanding += options_.told_cost.of(waiting_[i].patches);
      encoders_[encoder].push_back(waiting_[i]);
      if (encoders_[encoder].size() == 1) begin(encoder);
    }
    waiting_.resize(stay);
    asked_.resize(stay);
  }

  sched::VisionBalancer& policy_;
  std::span<const VisionArrival> arrivals_;
  const VisionQueueOptions& options_;
  Rng rng_{1};
  sched::CostModel model_;
  std::int64_t now_us_ = 0;
  std::int64_t prefill_until_us_ = 0;
  EventQueue<Event> events_;
  std::vector<Image> waiting_;            ///< In order of arrival.
  std::vector<sched::ImageView> asked_;   ///< The same, as the policy sees them.
  std::vector<sched::EncoderView> views_; ///< Ascending by rank.
  std::vector<std::deque<Image>> encoders_;
  std::vector<std::int64_t> left_; ///< [requests] images not encoded yet.
};

} // namespace

VisionTotals run_vision(sched::VisionBalancer& policy, std::span<const VisionArrival> arrivals,
                        const VisionQueueOptions& options) {
  Queue queue(policy, arrivals, options);
  queue.run();
  return std::move(queue.totals);
}

} // namespace troupe::sim
