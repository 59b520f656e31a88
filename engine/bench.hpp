// Measures an engine from the outside: prefill and decode tokens per second through the door.

#pragma once

#include "engine/engine.hpp"
#include "schedulers/core/result.hpp"

#include <cstdint>
#include <memory>

namespace troupe::engine {

struct BenchOptions {
  EngineOptions engine;             ///< Threads, CPU path, step budget; kv memory is sized to fit.
  std::int64_t sequences = 1;       ///< That prefill and decode together.
  std::int64_t prompt_tokens = 512; ///< Of each sequence; made-up ids from a fixed seed.
  std::int64_t new_tokens = 64;     ///< Decoded by each sequence, greedily; 0 skips decoding.
};

struct BenchResult {
  std::int64_t prefill_tokens = 0;
  std::int64_t prefill_us = 0; ///< Wall time of the steps, planning left out.
  std::int64_t decode_tokens = 0;
  std::int64_t decode_us = 0;
  std::int64_t step_us_max = 0; ///< Slowest decode step.

  double prefill_tokens_per_s() const noexcept {
    return prefill_us > 0
               ? 1e6 * static_cast<double>(prefill_tokens) / static_cast<double>(prefill_us)
               : 0.0;
  }
  double decode_tokens_per_s() const noexcept {
    return decode_us > 0 ? 1e6 * static_cast<double>(decode_tokens) / static_cast<double>(decode_us)
                         : 0.0;
  }
};

/// Opens a CPU engine on `weights`, prefills all sequences in steps of step_tokens_max, then
/// decodes all of them together.
///
///   Errors   of opening the engine; bad_argument when a sequence would exceed the context
Result<BenchResult> bench_engine(std::shared_ptr<const Weights> weights,
                                 const BenchOptions& options);

} // namespace troupe::engine
