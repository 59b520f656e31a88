#include "schedulers/plugin/plugin_instance.hpp"

#include <limits>

namespace troupe::sched {
namespace {

const CostModel& model_of(const troupe_cost_model* model) noexcept {
  return *reinterpret_cast<const CostModel*>(model);
}

std::int64_t host_marginal_ps(const troupe_cost_model* model, std::int64_t n, std::int64_t c) {
  return model_of(model).marginal_ps(n, c);
}

std::int64_t host_decode_load_ps(const troupe_cost_model* model, std::int64_t sequences,
                                 std::int64_t context_tokens) {
  return model_of(model).decode_load_ps(sequences, context_tokens);
}

std::int64_t host_largest_chunk(const troupe_cost_model* model, std::int64_t budget_ps,
                                std::int64_t c) {
  return model_of(model).largest_chunk(budget_ps, c);
}

std::uint64_t host_rng_next(void* rng) { return static_cast<Rng*>(rng)->bits(); }

} // namespace

const troupe_host& plugin_host() noexcept {
  static constexpr troupe_host host{sizeof(troupe_host), TROUPE_ABI_MINOR, host_marginal_ps,
                                    host_decode_load_ps, host_largest_chunk};
  return host;
}

CallContext call_context(const PolicyContext& ctx) noexcept {
  return {ctx.now_us, ctx.epoch, ctx.step_budget_ps, ctx.block_tokens, *ctx.cost_model, *ctx.rng};
}

troupe_call call_of(CallContext& context) noexcept {
  troupe_call call{};
  call.struct_size = sizeof call;
  call.now_us = context.now_us;
  call.policy_epoch = raw(context.epoch);
  call.step_budget_ps = context.step_budget_ps;
  call.block_tokens = context.block_tokens;
  call.cost_model = reinterpret_cast<const troupe_cost_model*>(&context.cost_model);
  call.cost_model_size = sizeof(troupe_cost_model);
  call.host = &plugin_host();
  call.rng_next = host_rng_next;
  call.rng = &context.rng;
  return call;
}

void PluginInstance::run() noexcept {
  threw = false;
  // A library must let no exception out. One that does has failed, and nothing else.
  try {
    perform();
  } catch (...) {
    threw = true;
  }
}

void PluginInstance::end() noexcept {
  if (self_ == nullptr) return;
  try {
    policy_.destroy(self_);
  } catch (...) {
    threw = true;
  }
  self_ = nullptr;
}

void PluginInstance::perform() {
  if (job == PluginJob::create) return create();
  tell();
  switch (job) {
  case PluginJob::create:
  case PluginJob::tell:
    break;
  case PluginJob::decide: {
    state_is_current = false;
    message[0] = '\0';
    const troupe_call call = call_of(context);
    returned = decide(call);
    message.back() = '\0';
    if (then_export && returned >= 0) take_state();
    break;
  }
  case PluginJob::export_state:
    take_state();
    break;
  case PluginJob::import_state:
    state_is_current = false;
    returned = policy_.import_state(self_, reinterpret_cast<const std::uint8_t*>(text.data()),
                                    text.size());
    break;
  case PluginJob::budget:
    budget();
    break;
  }
}

void PluginInstance::create() {
  message[0] = '\0';
  self_ = policy_.create(text.c_str(), text.size(), message.data(), message.size());
  message.back() = '\0';
}

void PluginInstance::take_state() {
  if (state_is_current) return;
  state.resize(state.capacity());
  auto* bytes = reinterpret_cast<std::uint8_t*>(state.data());
  const std::size_t size = policy_.export_state(self_, bytes, state.size());
  state_is_wrong = size > TROUPE_STATE_MAX;
  if (size > state.size() && !state_is_wrong) {
    state.resize(size);
    bytes = reinterpret_cast<std::uint8_t*>(state.data());
    state_is_wrong = policy_.export_state(self_, bytes, size) != size;
  }
  state.resize(state_is_wrong ? 0 : size);
  state_is_current = true;
}

} // namespace troupe::sched
