#include "actors/digest.hpp"

#include "schedulers/core/check.hpp"

#include <xxhash.h>

namespace troupe {

namespace {

Digest as_digest(const XXH128_hash_t& hash) noexcept { return {hash.high64, hash.low64}; }

} // namespace

Digest digest_of(std::span<const std::byte> bytes) noexcept {
  return as_digest(XXH3_128bits(bytes.data(), bytes.size()));
}

Digest digest_of(std::string_view bytes) noexcept {
  return as_digest(XXH3_128bits(bytes.data(), bytes.size()));
}

struct StreamDigest::State {
  XXH3_state_t* hash = XXH3_createState();
  ~State() { XXH3_freeState(hash); }
};

StreamDigest::StreamDigest() : state_(std::make_unique<State>()) {
  TROUPE_CHECK(state_->hash != nullptr, "out of memory");
  reset();
}
StreamDigest::StreamDigest(StreamDigest&&) noexcept = default;
StreamDigest& StreamDigest::operator=(StreamDigest&&) noexcept = default;
StreamDigest::~StreamDigest() = default;

void StreamDigest::reset() { XXH3_128bits_reset(state_->hash); }

void StreamDigest::add(std::string_view bytes) {
  XXH3_128bits_update(state_->hash, bytes.data(), bytes.size());
}

Digest StreamDigest::digest() const noexcept {
  return as_digest(XXH3_128bits_digest(state_->hash));
}

} // namespace troupe
