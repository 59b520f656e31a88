// Strong ids of everything two rooms talk about.
//
// Ids are enum classes without arithmetic: they are compared, hashed and printed, never added to.

#pragma once

#include <compare>
#include <cstdint>
#include <type_traits>

namespace troupe {

enum class RequestId : std::uint64_t {}; ///< One generation asked by a client; unique in a run.
enum class Attempt : std::uint32_t {}; ///< Number of a request's try, from 1; older ones are void.
enum class RankId : std::uint32_t {};  ///< One engine with its device.
enum class Incarnation : std::uint32_t {}; ///< Number of a rank's life, from 1.
enum class KvBlockId : std::int32_t {};    ///< A device page of KV rows on one rank.
enum class StateSlotId : std::int32_t {};  ///< The fixed-size state of one sequence on one rank.
enum class HandoffId : std::uint64_t {};   ///< One try to move one sequence, with its lease.
enum class PolicyEpoch : std::uint64_t {}; ///< Number of the live policy set.
enum class ExpertEpoch : std::uint64_t {}; ///< Number of the live expert map.

/// The number behind an id, for printing, hashing and storage.
template <class Id>
requires std::is_enum_v<Id>
constexpr auto raw(Id id) noexcept { return static_cast<std::underlying_type_t<Id>>(id); }

/// The id that follows `id`; the only way to make a new one from an old one.
template <class Id>
requires std::is_enum_v<Id>
constexpr Id next(Id id) noexcept { return static_cast<Id>(raw(id) + 1); }

/// A request in one of its attempts. A message about another attempt changes nothing.
struct RequestRef {
  RequestId request{};
  Attempt attempt{};
  auto operator<=>(const RequestRef&) const = default;
};

/// A rank in one of its lives. A message of another life changes nothing.
struct RankRef {
  RankId rank{};
  Incarnation incarnation{};
  auto operator<=>(const RankRef&) const = default;
};

} // namespace troupe
