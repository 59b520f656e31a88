// Every part enters with its name and length first, so that no two folders share a byte stream.

#include "engine/model/identity.hpp"

#include "engine/model/file.hpp"

#include <xxhash.h>

#include <cstdio>
#include <memory>

namespace troupe::engine {

namespace {

constexpr std::int64_t kPartBytesMax = 512'000'000;

class Hasher {
public:
  Hasher() : state_(XXH3_createState(), XXH3_freeState) { XXH3_128bits_reset(state_.get()); }

  void bytes(std::string_view data) { XXH3_128bits_update(state_.get(), data.data(), data.size()); }

  /// Eight bytes, low first.
  void number(std::int64_t value) {
    char raw[8];
    for (int i = 0; i < 8; ++i) {
      raw[i] = static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xFF);
    }
    bytes({raw, sizeof raw});
  }

  void part(std::string_view name, std::string_view data) {
    number(std::ssize(name));
    bytes(name);
    number(std::ssize(data));
    bytes(data);
  }

  std::string hex() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    char text[33];
    std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                  static_cast<unsigned long long>(hash.low64));
    return text;
  }

private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
};

Status add_file(Hasher& hasher, const std::string& folder, const char* name) {
  const std::string path = folder + "/" + name;
  if (!path_exists(path)) return {};
  auto text = read_text_file(path, kPartBytesMax);
  if (!text) return text.error();
  hasher.part(name, *text);
  return {};
}

/// Name inside the folder, size and header bytes of one shard.
Status add_shard(Hasher& hasher, const std::string& folder, const ShardInfo& shard) {
  auto file = InputFile::open(shard.path);
  if (!file) return file.error();
  std::string header(static_cast<std::size_t>(8 + shard.header_bytes), '\0');
  if (Status status = file->read_at(0, std::as_writable_bytes(std::span(header))); !status) {
    return status;
  }
  const bool inside = shard.path.starts_with(folder + "/");
  hasher.part(inside ? shard.path.substr(folder.size() + 1) : "", header);
  hasher.number(shard.file_bytes);
  return {};
}

} // namespace

Result<std::string> checkpoint_identity(const std::string& folder, const Checkpoint& checkpoint) {
  Hasher hasher;
  for (const char* name : {"config.json", "model.safetensors.index.json", "tokenizer.json",
                           "encoding.json", "generation_config.json", "engram.json"}) {
    if (Status status = add_file(hasher, folder, name); !status) return status.error();
  }
  for (const ShardInfo& shard : checkpoint.shards()) {
    if (Status status = add_shard(hasher, folder, shard); !status) return status.error();
  }
  return hasher.hex();
}

Result<std::string> config_identity(const std::string& folder) {
  Hasher hasher;
  for (const char* name : {"config.json", "generation_config.json"}) {
    if (Status status = add_file(hasher, folder, name); !status) return status.error();
  }
  return hasher.hex();
}

} // namespace troupe::engine
