// The better of two ranks that are drawn: robust when views are stale.

#pragma once

#include "schedulers/policies/decode_balancer/room.hpp"
#include "schedulers/policy/decode_balancer.hpp"

#include <cstdint>

namespace troupe::sched {

/// What two ranks are compared by.
enum class LoadMeasure : std::uint8_t {
  count,        ///< Sequences.
  kv,           ///< Context tokens.
  count_and_kv, ///< The time of a step in picoseconds.
};

struct TwoChoicesOptions {
  RoomOptions room;
  /// Default count. Hot: yes.
  LoadMeasure by = LoadMeasure::count;
};

/// Two different ranks with room are drawn; the lower load wins, ties by id.
///
/// Source: policies.md section 3.2, score 5.
class TwoChoicesBalancer final : public DecodeBalancer {
public:
  explicit TwoChoicesBalancer(const TwoChoicesOptions& options) : options_(options) {}

  Decision<Placement> place(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override;

private:
  TwoChoicesOptions options_;
};

} // namespace troupe::sched
