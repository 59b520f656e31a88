#include "schedulers/plugin/plugin_seat.hpp"

#include "schedulers/core/printable.hpp"

namespace troupe::sched {
namespace {

const char* job_name(PluginJob job) noexcept {
  switch (job) {
  case PluginJob::create:
    return "create";
  case PluginJob::decide:
    return "decide";
  case PluginJob::tell:
    return "observe";
  case PluginJob::export_state:
    return "export_state";
  case PluginJob::import_state:
    return "import_state";
  case PluginJob::budget:
    return "step_budget_ps";
  }
  return "a call";
}

} // namespace

bool PluginSeat::begin() noexcept {
  failure_.clear();
  if (runner_->idle()) return true;
  ++counts_.calls;
  ++counts_.busy;
  failure_ = "late: an earlier call has not returned yet";
  return false;
}

bool PluginSeat::finish(PluginJob job) noexcept {
  if (runner_->run(limits_.decide_us) == CallEnd::late) {
    ++counts_.late;
    failure_ = std::string("late: ") + job_name(job) + " did not return within " +
               std::to_string(limits_.decide_us) + " us";
    return false;
  }
  if (!instance<PluginInstance>().threw) return true;
  return refuse(std::string(job_name(job)) + " let an exception out");
}

bool PluginSeat::decide(const PolicyContext& ctx) noexcept {
  auto& held = instance<PluginInstance>();
  held.job = PluginJob::decide;
  held.context = call_context(ctx);
  held.then_export = held.has_state() && held.state.size() <= kSmallState;
  ++counts_.calls;
  if (!finish(PluginJob::decide)) return false;
  *ctx.rng = held.context.rng;
  if (held.returned == TROUPE_DONE || held.returned == TROUPE_NONE) return true;
  std::string what = "decide returned " + std::to_string(held.returned);
  if (held.returned > 0) what += ", which means nothing";
  if (held.returned < 0 && held.message[0] != '\0')
    what += ": " + printable(held.message.data(), held.message.size());
  return refuse(std::move(what));
}

bool PluginSeat::explain(std::uint32_t reason, Reason& out) noexcept {
  if (reason == TROUPE_REASON_UNSET) return refuse("the answer has no reason");
  if (reason >= TROUPE_REASON_REPLACED_INVALID) {
    return refuse("the answer has reason " + std::to_string(reason) +
                  ", expected one of 1 to 25 (TROUPE_REASON_...)");
  }
  out = static_cast<Reason>(reason);
  return true;
}

bool PluginSeat::refuse(std::string what) noexcept {
  ++counts_.failed;
  failure_ = std::move(what);
  return false;
}

bool PluginSeat::run(PluginJob job) noexcept {
  if (!runner_->idle()) return false;
  instance<PluginInstance>().job = job;
  return finish(job);
}

std::string PluginSeat::export_state() noexcept {
  if (!runner_->idle() || !instance<PluginInstance>().has_state()) return {};
  if (!run(PluginJob::export_state)) return {};
  auto& held = instance<PluginInstance>();
  if (held.state_is_wrong) {
    refuse("export_state gave two sizes, or more than " + std::to_string(TROUPE_STATE_MAX) +
           " bytes");
    return {};
  }
  return held.state;
}

void PluginSeat::import_state(const std::string& state) noexcept {
  if (state.empty() || !runner_->idle()) return;
  auto& held = instance<PluginInstance>();
  if (!held.has_state()) return;
  held.text = state;
  run(PluginJob::import_state);
}

} // namespace troupe::sched
