// One instance of a loaded policy: the inputs and outputs of its calls, and the calls.
//
// Everything a call touches is a member, so that a late call has nothing of its caller's.

#pragma once

#include "schedulers/core/rng.hpp"
#include "schedulers/model/cost_model.hpp"
#include "schedulers/plugin/call_runner.hpp"
#include "schedulers/plugin/policy_abi.h"
#include "schedulers/policy/policy.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace troupe::sched {

/// PolicyContext by value.
struct CallContext {
  std::int64_t now_us = 0;
  PolicyEpoch epoch{};
  std::int64_t step_budget_ps = 0;
  std::int64_t block_tokens = 64;
  CostModel cost_model;
  Rng rng{0};
};

CallContext call_context(const PolicyContext& ctx) noexcept;

/// As a library sees it; valid while `context` lives.
troupe_call call_of(CallContext& context) noexcept;

/// This host's functions for libraries; static.
const troupe_host& plugin_host() noexcept;

/// What run() does next.
enum class PluginJob : std::uint8_t { create, decide, tell, export_state, import_state, budget };

class PluginInstance : public CallTarget {
public:
  /// @param library  keeps the code of `policy` loaded
  PluginInstance(const troupe_policy& policy, std::shared_ptr<const void> library)
      : library_(std::move(library)), policy_(policy) {}

  void run() noexcept final;
  void end() noexcept final;

  bool created() const noexcept { return self_ != nullptr; }
  bool has_state() const noexcept { return policy_.export_state != nullptr; }

  // Read by run().
  PluginJob job = PluginJob::create;
  CallContext context;
  std::string text;         ///< Options of create, state of import_state.
  bool then_export = false; ///< After decide: saves a call when the state is wanted with each one.

  // Written by run().
  bool threw = false;
  std::int32_t returned = 0; ///< By decide or import_state.
  std::array<char, 256> message{};
  std::string state;
  bool state_is_current = false;
  bool state_is_wrong = false; ///< The last export was larger than it may be.

protected:
  virtual std::int32_t decide(const troupe_call& call) = 0;
  /// Hands over what was observed since the last call.
  virtual void tell() {}
  virtual void budget() {}

  void* self() const noexcept { return self_; }

private:
  void perform();
  void create();
  void take_state();

  std::shared_ptr<const void> library_; ///< Outlives every call.
  troupe_policy policy_;
  void* self_ = nullptr;
};

} // namespace troupe::sched
