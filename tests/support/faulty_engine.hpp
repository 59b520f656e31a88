// An engine with a fault hook around every call: the hook may throw, block, or do nothing.

#pragma once

#include "engine/engine.hpp"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace troupe::test {

/// Where a call stands: `stepped` is after the inner engine computed a step.
enum class EngineCall : std::uint8_t {
  step,
  stepped,
  export_kv,
  import_regions,
  import_kv,
  closed
};

/// The plan is null for calls that have none.
using EngineFault = std::function<void(EngineCall call, const engine::StepPlan* plan)>;

class FaultyEngine final : public engine::Engine {
public:
  FaultyEngine(std::shared_ptr<engine::Engine> inner, EngineFault fault)
      : inner_(std::move(inner)), fault_(std::move(fault)) {}
  ~FaultyEngine() override { fault_(EngineCall::closed, nullptr); }

  const engine::ModelFacts& model() const noexcept override { return inner_->model(); }
  const engine::KvFacts& kv() const noexcept override { return inner_->kv(); }

  Result<engine::StepResult> step(const engine::StepPlan& plan) override {
    fault_(EngineCall::step, &plan);
    auto result = inner_->step(plan);
    fault_(EngineCall::stepped, &plan);
    return result;
  }
  Result<engine::KvExport> export_kv(StateSlotId slot, std::span<const KvBlockId> blocks) override {
    fault_(EngineCall::export_kv, nullptr);
    return inner_->export_kv(slot, blocks);
  }
  Result<std::vector<std::span<std::byte>>>
  import_regions(StateSlotId slot, std::span<const KvBlockId> blocks) override {
    fault_(EngineCall::import_regions, nullptr);
    return inner_->import_regions(slot, blocks);
  }
  Status import_kv(const engine::KvManifest& manifest, StateSlotId slot,
                   std::span<const KvBlockId> blocks) override {
    fault_(EngineCall::import_kv, nullptr);
    return inner_->import_kv(manifest, slot, blocks);
  }

private:
  std::shared_ptr<engine::Engine> inner_;
  EngineFault fault_;
};

} // namespace troupe::test
