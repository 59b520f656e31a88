// Protobuf records ↔ our structs. The only file that includes generated code.

#pragma once

#include "actors/digest.hpp"
#include "actors/token_log.hpp"
#include "engine/engine.hpp"
#include "schedulers/core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace troupe::actors {

/// Everything a target rank needs to take over a sequence.
struct HandoffRecord {
  std::string address; ///< Transport endpoint of the source.
  engine::KvManifest manifest;
  std::vector<std::uint64_t> region_ids; ///< As manifest.regions.
  std::uint64_t log_region_id = 0;
  engine::RegionFacts log; ///< Bytes and digest of the encoded SequenceLog.
};

std::string encode(const HandoffRecord& record);
Result<HandoffRecord> decode_handoff(const std::string& bytes);

std::string encode(const SequenceLog& log);
Result<SequenceLog> decode_sequence_log(std::span<const std::byte> bytes);

using troupe::digest_of;

/// One digest over the digests of all regions: what Adopt compares with TransferDone.
Digest digest_of(const HandoffRecord& record);

} // namespace troupe::actors
