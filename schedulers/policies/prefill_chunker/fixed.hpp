// Whole prompts in order up to a token budget, the last one cut at what is left.
//
// This is how the released engine packs its steps.

#pragma once

#include "schedulers/policy/prefill_chunker.hpp"

#include <cstdint>

namespace troupe::sched {

struct FixedOptions {
  /// Prefill tokens of one step. Unit: tokens. Default 0 = as many as a step takes.
  /// Range 0 to 2^31. Hot: yes.
  std::int64_t budget_tokens = 0;
};

/// Source: policies.md section 1, first paragraph.
class FixedChunker final : public PrefillChunker {
public:
  explicit FixedChunker(const FixedOptions& options) : options_(options) {}

  Decision<Slices> pack(const PackQuery& query, std::span<const RequestView> requests,
                        const PolicyContext& ctx) noexcept override;
  /// T(budget, 0).
  std::int64_t step_budget_ps(const CostModel& model,
                              std::int64_t step_tokens_max) const noexcept override;

private:
  FixedOptions options_;
};

} // namespace troupe::sched
