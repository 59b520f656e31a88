// Loaded queue policies. What they observe waits here until they are called, so that telling them
// costs a stage nothing.

#include "schedulers/plugin/plugin_kinds.hpp"
#include "schedulers/policy/queue_policy.hpp"

namespace troupe::sched {
namespace {

/// What happened to one request.
struct Seen {
  RequestView request;
  QueueEvent event = QueueEvent::entered;
  CallContext context;
};

class QueueInstance final : public PluginInstance {
public:
  QueueInstance(const troupe_policy& policy, std::shared_ptr<const void> library)
      : PluginInstance(policy, std::move(library)),
        table_(struct_of_library<troupe_queue>(policy.table)) {}

  bool observes() const noexcept { return table_.observe != nullptr; }

  void hold(std::span<const RequestView> waiting, bool copy) {
    waiting_.hold(waiting, copy);
    positions_.assign(waiting.size(), UINT32_MAX);
  }

  Decision<Order> answer(PluginSeat& seat) const noexcept {
    Decision<Order> decision;
    if (!seat.explain(answer_.reason, decision.reason)) return {};
    if (returned == TROUPE_DONE) decision.value = Order{positions_};
    return decision;
  }

  std::vector<Seen> seen; ///< To be told with the next call, in order.

private:
  std::int32_t decide(const troupe_call& call) override {
    troupe_queue_question question{};
    question.struct_size = sizeof question;
    question.waiting = waiting_.array();
    begin_answer(answer_, message);
    answer_.positions = positions_.data();
    return table_.decide(self(), &question, &call, &answer_);
  }

  void tell() override {
    if (seen.empty()) return;
    state_is_current = false;
    std::vector<Seen> told;
    told.swap(seen);
    for (Seen& one : told) {
      const troupe_call call = call_of(one.context);
      table_.observe(self(), reinterpret_cast<const troupe_request_view*>(&one.request),
                     sizeof(troupe_request_view), static_cast<std::uint32_t>(one.event), &call);
    }
  }

  troupe_queue table_;
  HeldViews<RequestView> waiting_;
  std::vector<std::uint32_t> positions_;
  troupe_queue_answer answer_{};
};

class LoadedQueue final : public Loaded<QueuePolicy> {
public:
  using Instance = QueueInstance;
  explicit LoadedQueue(PluginSeat seat)
      : Loaded(std::move(seat)), observes_(seat_.instance<QueueInstance>().observes()) {}

  Decision<Order> order(std::span<const RequestView> waiting,
                        const PolicyContext& ctx) noexcept override {
    if (!seat_.begin()) return {};
    hand_over();
    auto& held = seat_.instance<QueueInstance>();
    held.hold(waiting, seat_.copies());
    if (!seat_.decide(ctx)) return {};
    return held.answer(seat_);
  }

  void observe(const RequestView& request, QueueEvent event,
               const PolicyContext& ctx) noexcept override {
    if (!observes_) return;
    if (pending_.size() >= kPendingMax) return seat_.lost_observation();
    pending_.push_back({request, event, call_context(ctx)});
    if (!seat_.idle()) return;
    // Where calls cost nothing they are made at once; elsewhere many at a time.
    if (!seat_.copies() || pending_.size() >= kTellAt) tell();
  }

  std::string export_state() const override {
    if (seat_.idle()) hand_over();
    return seat_.export_state();
  }
  void import_state(const std::string& state) override {
    if (seat_.idle()) hand_over();
    seat_.import_state(state);
  }

private:
  static constexpr std::size_t kTellAt = 256;      ///< So many are told without a question.
  static constexpr std::size_t kPendingMax = 4096; ///< More are lost while a late call runs.

  /// @pre idle
  void hand_over() const {
    auto& seen = seat_.instance<QueueInstance>().seen;
    if (pending_.empty()) return;
    seat_.instance<QueueInstance>().state_is_current = false;
    seen.insert(seen.end(), pending_.begin(), pending_.end());
    pending_.clear();
  }

  void tell() {
    hand_over();
    seat_.run(PluginJob::tell);
  }

  bool observes_;
  mutable std::vector<Seen> pending_;
};

} // namespace

PluginKind plugin_queue_kind() { return plugin_kind<LoadedQueue>(); }

} // namespace troupe::sched
