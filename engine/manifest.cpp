// Checks of a manifest: cheap ones first, digests last.

#include "engine/manifest.hpp"

#include <xxhash.h>

#include <string>

namespace troupe::engine {

namespace {

constexpr std::uint32_t kVersion = 1;

std::string differs(const char* name, const std::string& found, const std::string& expected) {
  return std::string("the sequence has ") + name + " " + found + ", this engine has " + expected +
         "; both ends of a handoff need the same checkpoint and the same settings";
}

} // namespace

Digest region_digest(std::span<const std::byte> bytes) noexcept {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

std::int64_t blocks_for(std::int64_t positions, std::int64_t block_tokens) noexcept {
  return (positions + block_tokens - 1) / block_tokens;
}

KvManifest make_manifest(const ModelFacts& model, const KvFacts& kv, std::int64_t positions,
                         std::span<const std::span<const std::byte>> regions) {
  KvManifest manifest;
  manifest.version = kVersion;
  manifest.model_identity = model.identity;
  manifest.kv_format = kv.kv_format;
  manifest.layout_id = kv.layout_id;
  manifest.block_tokens = kv.block_tokens;
  manifest.positions = positions;
  manifest.cpu_path = model.cpu_path;
  for (const auto& region : regions) {
    manifest.regions.push_back({std::ssize(region), region_digest(region)});
  }
  return manifest;
}

Status check_kv_ids(const KvFacts& kv, StateSlotId slot, std::span<const KvBlockId> blocks,
                    std::int64_t positions) {
  const auto refuse = [](std::string what) { return Status{ErrorCode::bad_plan, std::move(what)}; };
  if (raw(slot) < 0 || raw(slot) >= kv.slots) {
    return refuse("state slot " + std::to_string(raw(slot)) + ", expected 0 to " +
                  std::to_string(kv.slots - 1));
  }
  if (std::ssize(blocks) < blocks_for(positions, kv.block_tokens)) {
    return refuse(std::to_string(blocks.size()) + " kv blocks for " + std::to_string(positions) +
                  " tokens, expected " + std::to_string(blocks_for(positions, kv.block_tokens)));
  }
  std::vector<bool> seen(static_cast<std::size_t>(kv.blocks));
  for (const KvBlockId block : blocks) {
    if (raw(block) < 0 || raw(block) >= kv.blocks || seen[static_cast<std::size_t>(raw(block))]) {
      return refuse("kv block " + std::to_string(raw(block)) +
                    ", expected distinct ids from 0 to " + std::to_string(kv.blocks - 1));
    }
    seen[static_cast<std::size_t>(raw(block))] = true;
  }
  return {};
}

Status check_manifest(const KvManifest& manifest, const ModelFacts& model, const KvFacts& kv) {
  std::string problem;
  const auto compare = [&](const char* name, const std::string& found,
                           const std::string& expected) {
    if (problem.empty() && found != expected) problem = differs(name, found, expected);
  };
  compare("manifest version", std::to_string(manifest.version), std::to_string(kVersion));
  compare("model", manifest.model_identity, model.identity);
  compare("kv format", manifest.kv_format, kv.kv_format);
  compare("kv layout", std::to_string(manifest.layout_id), std::to_string(kv.layout_id));
  compare("block_tokens", std::to_string(manifest.block_tokens), std::to_string(kv.block_tokens));
  compare("cpu path", manifest.cpu_path, model.cpu_path);
  if (problem.empty() && (manifest.positions < 1 || manifest.positions > model.context_max)) {
    problem = "the sequence has " + std::to_string(manifest.positions) +
              " tokens, expected 1 to the context of " + std::to_string(model.context_max);
  }
  if (!problem.empty()) return {ErrorCode::mismatch, std::move(problem)};
  const std::int64_t blocks = blocks_for(manifest.positions, kv.block_tokens);
  compare("regions", std::to_string(manifest.regions.size()), std::to_string(1 + blocks));
  for (std::size_t i = 0; i < manifest.regions.size(); ++i) {
    compare(i == 0 ? "slot bytes" : "block bytes", std::to_string(manifest.regions[i].bytes),
            std::to_string(i == 0 ? kv.slot_bytes : kv.block_bytes));
  }
  if (!problem.empty()) return {ErrorCode::mismatch, std::move(problem)};
  return {};
}

Status check_regions(const KvManifest& manifest,
                     std::span<const std::span<const std::byte>> regions) {
  if (regions.size() < manifest.regions.size()) {
    return {ErrorCode::mismatch, "the sequence has " + std::to_string(manifest.regions.size()) +
                                     " regions, but room was made for " +
                                     std::to_string(regions.size())};
  }
  for (std::size_t i = 0; i < manifest.regions.size(); ++i) {
    if (std::ssize(regions[i]) != manifest.regions[i].bytes ||
        region_digest(regions[i]) != manifest.regions[i].digest) {
      return {ErrorCode::bad_digest,
              (i == 0 ? std::string("state slot") : "kv block number " + std::to_string(i - 1)) +
                  " of the sequence arrived with other bytes than were sent; transfer it again"};
    }
  }
  return {};
}

} // namespace troupe::engine
