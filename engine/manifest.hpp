// What an exported sequence says about itself, compared with the engine that is to take it over.

#pragma once

#include "engine/engine.hpp"
#include "schedulers/core/digest.hpp"
#include "schedulers/core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::engine {

/// XXH3-128 of one region's bytes.
Digest region_digest(std::span<const std::byte> bytes) noexcept;

/// Kv blocks that hold `positions` tokens.
std::int64_t blocks_for(std::int64_t positions, std::int64_t block_tokens) noexcept;

/// A manifest of this engine for `regions` (state slot first), digests computed.
///
///   Cost     reads every byte of the regions
KvManifest make_manifest(const ModelFacts& model, const KvFacts& kv, std::int64_t positions,
                         std::span<const std::span<const std::byte>> regions);

/// Slot and blocks of an export or import: ids in range, blocks distinct and enough for
/// `positions`.
///
///   Errors   bad_plan
Status check_kv_ids(const KvFacts& kv, StateSlotId slot, std::span<const KvBlockId> blocks,
                    std::int64_t positions);

/// Everything that can be known before bytes are read: version, model, format, layout, sizes.
///
///   Errors   mismatch; says what the manifest has and what this engine has
Status check_manifest(const KvManifest& manifest, const ModelFacts& model, const KvFacts& kv);

/// Bytes that arrived against the digests of the manifest. `regions` may be more than the manifest
/// has, when more blocks are reserved than used.
///
///   Errors   bad_digest; names the region
Status check_regions(const KvManifest& manifest,
                     std::span<const std::span<const std::byte>> regions);

} // namespace troupe::engine
