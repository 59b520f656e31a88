// Speed of the engine on one checkpoint: tokens per second, and against a read floor of the run.

#pragma once

#include "engine/engine.hpp"
#include "schedulers/core/result.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::app {

/// One shape: so many sequences on so many threads.
struct EngineBenchRow {
  std::int64_t threads = 0;
  std::int64_t sequences = 0;
  double prefill_tokens_per_s = 0;
  double decode_tokens_per_s = 0;
  double decode_read_share = 0; ///< Bytes of weights a step reads / step time / probed read rate.
};

struct EngineBench {
  std::string cpu_path;
  std::int64_t rounds = 0;
  double read_bytes_per_s = 0; ///< One thread over as many bytes as the weights, this run.
  std::vector<EngineBenchRow> rows;
};

/// Medians over rounds in which all shapes take turns.
Result<EngineBench> bench_engine_shapes(const engine::EngineOptions& options, std::int64_t rounds);

std::string bench_text(const EngineBench& bench);
std::string bench_json(const EngineBench& bench);

} // namespace troupe::app
