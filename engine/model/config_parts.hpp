// The part of the configuration that comes from engram.json or is derived in its absence.

#pragma once

#include "engine/model/config.hpp"
#include "schedulers/core/result.hpp"

#include <cstdint>
#include <string>

namespace troupe::engine {

/// Fills multipliers, primes, offsets and token map of `config.engram` from the file at `path`, or
/// without it from what can be derived; the rest is said in `incomplete`.
///
/// @pre everything else of `config` is read and checked
Status complete_engram(const std::string& path, std::int64_t vocab_size, ModelConfig& config);

} // namespace troupe::engine
