// Names of store units: a chain of digests, so that equal names mean equal tokens and equal
// beginnings.
//
// A store unit is a fixed number of tokens; only full units have a name, the rest of a prompt is
// private to its request.

#pragma once

#include "schedulers/core/result.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace troupe::sched {

inline constexpr std::int64_t kUnitTokens = 256;
inline constexpr std::int64_t kUnitBytes = 227'840; ///< 256 tokens of 890 bytes.
inline constexpr std::int64_t kExtentUnits = 8;     ///< Units that one input or output moves.

using ChainDigest = std::array<std::uint8_t, 32>;

/// SHA-256 of bytes, which a hostile prompt cannot make collide. A library of the caller has it:
/// nothing here is cryptography.
using DigestFunction = std::function<ChainDigest(std::span<const std::uint8_t>)>;

/// What makes KV unusable for others: everything that goes into it beside the tokens.
struct ChainRoot {
  std::string_view model;
  std::string_view kv_format;
  std::string_view revision = {};    ///< Of the weights; "" = none.
  std::string_view tenant_salt = {}; ///< Keeps tenants apart; "" = shared.
};

/// What the store is asked for: the first half of a link.
using UnitKey = std::array<std::uint8_t, 16>;

/// The link before the first unit: the digest of "model|kv_format", "|revision" and "|tenant_salt"
/// where those are set. A '|' inside a field would read like two fields and is an error. A salt
/// without a revision reads like a revision, so salts must not be names of revisions.
Result<ChainDigest> chain_root(const ChainRoot& root, const DigestFunction& sha256);

/// The link of the unit with these tokens after `before`.
///
/// @param extra  digests of the images behind placeholder tokens; empty for text
ChainDigest next_link(const ChainDigest& before, std::span<const std::uint32_t> tokens,
                      const DigestFunction& sha256, std::span<const std::uint8_t> extra = {});

UnitKey key_of(const ChainDigest& link) noexcept;

/// How many of the first `units` of a chain are there. A unit never is without those before it, so
/// doubling steps and then halves find the end.
///
///   Cost   at most max(1, 2·log2(units)) calls
///
/// @param is_there  (index of a unit) -> bool
template <class Probe>
std::int64_t longest_prefix(std::int64_t units, const Probe& is_there) {
  std::int64_t there = 0; // Units that are known to be there.
  std::int64_t next = 1;
  while (next <= units && is_there(next - 1)) {
    there = next;
    next *= 2;
  }
  // The first that is missing lies in (there, missing].
  std::int64_t missing = next <= units ? next : units + 1;
  while (missing - there > 1) {
    const std::int64_t middle = there + (missing - there) / 2;
    (is_there(middle - 1) ? there : missing) = middle;
  }
  return there;
}

} // namespace troupe::sched
