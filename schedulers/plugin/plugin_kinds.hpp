// Loaded policies by kind; each adapter fills a question, makes the call and judges the answer.

#pragma once

#include "schedulers/plugin/plugin_policy.hpp"
#include "schedulers/plugin/plugin_seat.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::sched {

/// What the adapters of all kinds do alike.
template <class Kind>
class Loaded : public Kind, public LoadedPolicy {
public:
  explicit Loaded(PluginSeat seat) : seat_(std::move(seat)) {}

  std::string export_state() const override { return seat_.export_state(); }
  void import_state(const std::string& state) override { seat_.import_state(state); }
  std::string failure() const override { return seat_.failure(); }
  const PluginCounts& counts() const noexcept override { return seat_.counts(); }

protected:
  /// Hands the question to the library's instance and asks it; no value when that fails.
  template <class Instance, class... Question>
  auto ask(const PolicyContext& ctx, const Question&... question) noexcept
      -> decltype(std::declval<Instance&>().answer(std::declval<PluginSeat&>())) {
    if (!seat_.begin()) return {};
    auto& held = seat_.template instance<Instance>();
    held.hold(question...);
    if (!seat_.decide(ctx)) return {};
    return held.answer(seat_);
  }

  mutable PluginSeat seat_; ///< A call changes buffers, also that of a question without effect.
};

/// Views for a call: those of the caller, or copies of them when the call may outlive it.
template <class View>
class HeldViews {
public:
  void hold(std::span<const View> views, bool copy) {
    if (copy) kept_.assign(views.begin(), views.end());
    views_ = copy ? std::span<const View>(kept_) : views;
  }
  std::size_t size() const noexcept { return views_.size(); }
  const View* data() const noexcept { return views_.empty() ? nullptr : views_.data(); }
  troupe_array array() const noexcept { return {data(), views_.size(), sizeof(View)}; }

private:
  std::vector<View> kept_;
  std::span<const View> views_;
};

/// The message buffer of an answer.
template <class Answer, std::size_t N>
void begin_answer(Answer& answer, std::array<char, N>& message) noexcept {
  answer = Answer{};
  answer.struct_size = sizeof answer;
  answer.message = message.data();
  answer.message_size = message.size();
}

/// Makes the adapter of one kind around a seat.
using SeatedMaker = std::unique_ptr<Policy> (*)(PluginSeat seat);
/// Makes the instance of one kind.
using InstanceMaker = std::unique_ptr<PluginInstance> (*)(const troupe_policy& policy,
                                                          std::shared_ptr<const void> library);

struct PluginKind {
  InstanceMaker instance;
  SeatedMaker policy;
};

template <class Adapter>
PluginKind plugin_kind() {
  return {[](const troupe_policy& policy,
             std::shared_ptr<const void> library) -> std::unique_ptr<PluginInstance> {
            return std::make_unique<typename Adapter::Instance>(policy, std::move(library));
          },
          [](PluginSeat seat) -> std::unique_ptr<Policy> {
            return std::make_unique<Adapter>(std::move(seat));
          }};
}

PluginKind plugin_queue_kind();
PluginKind plugin_router_kind();
PluginKind plugin_balancer_kind();
PluginKind plugin_chunker_kind();
PluginKind plugin_admission_kind();
PluginKind plugin_handoff_kind();
PluginKind plugin_step_kind();
PluginKind plugin_overlap_kind();

} // namespace troupe::sched
