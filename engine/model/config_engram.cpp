// Engram hash data: read from engram.json, or derived where the rule needs no foreign generator.

#include "engine/model/config_parts.hpp"
#include "engine/model/file.hpp"
#include "engine/model/json_fields.hpp"

#include <limits>

namespace troupe::engine {

namespace {

constexpr std::int64_t kFileBytesMax = 256'000'000;

// Trial division stays under a second within these.
constexpr std::int64_t kDerivedVocabMax = std::int64_t{1} << 32;
constexpr std::int64_t kDerivedPrimesMax = 4096;

/// Layers 1 and 14 of the released model with 99092 compressed ids; draws of another library's
/// generator, hence data (model description, Engram).
constexpr std::int64_t kReleasedCompressedVocab = 99'092;
struct ReleasedMultipliers {
  std::int64_t layer;
  std::int64_t values[4];
};
constexpr ReleasedMultipliers kReleased[] = {
    {1, {76'632'096'046'245, 4'839'876'093'313, 35'959'672'319'349, 73'987'337'458'391}},
    {14, {67'716'810'739'261, 51'510'806'800'915, 30'921'347'202'721, 82'619'226'485'591}}};

bool is_prime(std::int64_t n) {
  if (n < 2) return false;
  for (std::int64_t k = 2; k * k <= n; ++k) {
    if (n % k == 0) return false;
  }
  return true;
}

/// The released multipliers of every layer, or nothing.
std::vector<std::vector<std::int64_t>> known_multipliers(const EngramConfig& engram) {
  std::vector<std::vector<std::int64_t>> found;
  if (engram.compressed_vocab != kReleasedCompressedVocab || engram.ngram_max != 4) return found;
  for (const std::int64_t layer : engram.layers) {
    for (const auto& row : kReleased) {
      if (row.layer == layer) found.emplace_back(row.values, row.values + 4);
    }
  }
  if (found.size() != engram.layers.size()) found.clear();
  return found;
}

void derive(std::int64_t vocab_size, ModelConfig& config, const std::string& path) {
  EngramConfig& engram = config.engram;
  const auto layers = std::ssize(engram.layers);
  engram.multipliers = known_multipliers(engram);
  if (vocab_size >= 1 && vocab_size <= kDerivedVocabMax &&
      layers * engram.ids() <= kDerivedPrimesMax) {
    engram.primes = derive_engram_primes(layers, engram.ids(), vocab_size);
  }
  std::string missing;
  if (engram.multipliers.empty()) missing += " multipliers";
  if (engram.primes.empty()) missing += " primes";
  if (engram.compressed_vocab != config.vocab) missing += " token_map";
  if (!missing.empty()) {
    engram.incomplete = path + ": is missing, and" + missing +
                        " cannot be derived from config.json; put an engram.json with layers, "
                        "multipliers, primes and token_map beside config.json";
  }
}

/// Each list as long as the configuration says.
void check_rows(const JsonObject& root, const char* key,
                const std::vector<std::vector<std::int64_t>>& rows, std::size_t layers,
                std::int64_t width) {
  bool right = rows.size() == layers;
  for (const auto& row : rows)
    right = right && std::ssize(row) == width;
  if (!right) {
    root.fail(key, "has another shape, expected " + std::to_string(layers) + " lists of " +
                       std::to_string(width) + " numbers by config.json");
  }
}

void read_token_map(const JsonObject& root, ModelConfig& config) {
  EngramConfig& engram = config.engram;
  if (!root.has("token_map")) {
    if (engram.compressed_vocab < config.vocab) {
      root.fail("token_map", "is null (the identity), but engram_compressed_vocab_size " +
                                 std::to_string(engram.compressed_vocab) +
                                 " is less than vocab_size " + std::to_string(config.vocab));
    }
    return;
  }
  const auto map = root.integers("token_map", 0, engram.compressed_vocab - 1);
  if (std::ssize(map) != config.vocab) {
    root.fail("token_map", "has " + std::to_string(map.size()) +
                               " entries, expected vocab_size = " + std::to_string(config.vocab));
  }
  engram.token_map.assign(map.begin(), map.end());
}

Status read_file(const std::string& path, ModelConfig& config) {
  auto document = JsonDocument::read(path, kFileBytesMax);
  if (!document) return document.error();
  EngramConfig& engram = config.engram;
  const JsonObject root = document->root();
  const std::size_t layers = engram.layers.size();
  if (root.integers("layers", 0, INT32_MAX) != engram.layers) {
    root.fail("layers", "is another list than engram_layer_ids of config.json, expected the same");
  }
  // A product of a compressed id and a multiplier must stay inside 63 bits.
  engram.multipliers = root.rows("multipliers", 1, INT64_MAX / engram.compressed_vocab);
  engram.primes = root.rows("primes", 1, std::int64_t{1} << 40);
  check_rows(root, "multipliers", engram.multipliers, layers, engram.ngram_max);
  check_rows(root, "primes", engram.primes, layers, engram.ids());
  read_token_map(root, config);
  return document->status();
}

/// Running sums of the primes, which must add up to the rows of the table.
Status fill_offsets(const std::string& path, EngramConfig& engram) {
  for (std::size_t i = 0; i < engram.primes.size(); ++i) {
    std::vector<std::int64_t> offsets;
    std::int64_t sum = 0;
    for (const std::int64_t prime : engram.primes[i]) {
      offsets.push_back(sum);
      sum += prime;
    }
    if (sum != engram.rows[i]) {
      return {ErrorCode::bad_checkpoint,
              path + ": primes[" + std::to_string(i) + "]: add up to " + std::to_string(sum) +
                  ", expected engram_num_embeddings[" + std::to_string(i) +
                  "] = " + std::to_string(engram.rows[i]) +
                  " of config.json; the files are of two models, fetch both again"};
    }
    engram.offsets.push_back(std::move(offsets));
  }
  return {};
}

} // namespace

std::vector<std::vector<std::int64_t>>
derive_engram_primes(std::int64_t layers, std::int64_t per_layer, std::int64_t vocab_size) {
  std::vector<std::vector<std::int64_t>> all(static_cast<std::size_t>(layers));
  std::int64_t candidate = vocab_size;
  for (auto& layer : all) {
    while (std::ssize(layer) < per_layer) {
      if (is_prime(candidate)) layer.push_back(candidate);
      ++candidate;
    }
  }
  return all;
}

Status complete_engram(const std::string& path, std::int64_t vocab_size, ModelConfig& config) {
  if (config.engram.layers.empty()) return {};
  if (path_exists(path)) {
    if (Status status = read_file(path, config); !status) return status;
  } else {
    derive(vocab_size, config, path);
  }
  return fill_offsets(path, config.engram);
}

} // namespace troupe::engine
