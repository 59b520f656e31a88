// XXH3-128 of bytes, at once or as they come: the one digest of manifests, journals and ids.

#pragma once

#include "schedulers/core/digest.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace troupe {

Digest digest_of(std::span<const std::byte> bytes) noexcept;
Digest digest_of(std::string_view bytes) noexcept;

/// Over bytes that come in pieces. Thread: one owner.
class StreamDigest {
public:
  StreamDigest();
  StreamDigest(StreamDigest&&) noexcept;
  StreamDigest& operator=(StreamDigest&&) noexcept;
  ~StreamDigest();

  /// Forgets all pieces.
  void reset();
  void add(std::string_view bytes);
  /// Of all pieces so far.
  Digest digest() const noexcept;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace troupe
