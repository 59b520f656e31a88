// The CPU engine as a class, for those who compare it with golden files; everybody else opens one
// through engine.hpp.

#pragma once

#include "engine/engine.hpp"
#include "engine/kv/arena.hpp"
#include "engine/model/step_state.hpp"
#include "engine/plan_check.hpp"
#include "engine/thread_pool.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace troupe::engine {

class CpuEngine final : public Engine {
public:
  /// Errors: bad_argument for an option out of range, unsupported for a CPU path this machine
  /// lacks, no_room when kv_memory_bytes does not hold the slots and one block.
  static Result<std::unique_ptr<CpuEngine>> open(std::shared_ptr<const Weights> weights,
                                                 const EngineOptions& options);

  const ModelFacts& model() const noexcept override { return model_; }
  const KvFacts& kv() const noexcept override { return kv_; }
  Result<StepResult> step(const StepPlan& plan) override;
  Result<KvExport> export_kv(StateSlotId slot, std::span<const KvBlockId> blocks) override;
  Result<std::vector<std::span<std::byte>>>
  import_regions(StateSlotId slot, std::span<const KvBlockId> blocks) override;
  Status import_kv(const KvManifest& manifest, StateSlotId slot,
                   std::span<const KvBlockId> blocks) override;

  /// Shows intermediate tensors of later steps to `trace`; null stops that. Not owned.
  void set_trace(Trace* trace) noexcept { state_.trace = trace; }

private:
  CpuEngine(std::shared_ptr<const Weights> weights, KvLayout layout, Arena arena, bool quantise,
            const kernels::OpTable& ops, const EngineOptions& options, std::int64_t context_max);

  std::vector<SequenceStep> sequences_of(const StepPlan& plan) const;
  void finish(const StepPlan& plan, StepResult& result);

  std::shared_ptr<const Weights> weights_;
  KvLayout layout_;
  Arena arena_;
  ThreadPool pool_;
  StepState state_;
  ModelFacts model_;
  KvFacts kv_;
  PlanLimits limits_;
  std::vector<std::int64_t>
      slot_length_; ///< [slots] tokens held; what a slot's bytes say is copied.
};

} // namespace troupe::engine
