// Recorded traces of requests → rows of a simulated workload.

#pragma once

#include "schedulers/core/result.hpp"
#include "schedulers/sim/workload.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::app {

/// Reads at most `rows_max` rows of a trace. The first line tells the format:
///
///   {"timestamp": MS, "input_length": N, "output_length": N, ...}   one JSON object a line
///   TIMESTAMP,ContextTokens,GeneratedTokens                         CSV, as 2023-11-16 18:15:46.68
///
/// Tokens are whole numbers, a time may be a fraction of its unit, and no key of a row stands
/// twice. A line is at most 1 MiB. Times count from the first row; rows must ascend by time. Errors
/// name file, line and column, what was found and what was expected.
Result<std::vector<sim::TraceRow>> read_trace(const std::string& path, std::int64_t rows_max);

} // namespace troupe::app
