// Decides which KV is worth storing, for how long, and what goes first when space is short.
//
// A store unit is what the store names by hash; units of a prompt form a chain, each the child of
// the one before.

#pragma once

#include "schedulers/core/result.hpp"
#include "schedulers/policy/policy.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::sched {

/// What kind of traffic a unit belongs to.
enum class RetentionClass : std::uint8_t { once, chat, agent };

/// A unit that is stored.
struct RetentionUnit {
  std::uint64_t hash = 0; ///< First bytes of its name; unique in one question.
  RetentionClass kind = RetentionClass::once;
  std::int64_t depth = 0;    ///< Units before it in its chain.
  std::int64_t children = 0; ///< Stored units that continue it.
  std::uint64_t parent = 0;  ///< hash of the unit before it; 0 = none.
  std::int64_t refs = 0;     ///< Requests that use it now.
  std::int64_t last_use_us = 0;
  std::int64_t expires_us = 0;
  std::int64_t bytes = 0;    ///< >= 1.
  std::int64_t saved_ps = 0; ///< Computing that a hit saves.
};

/// Units that a request leaves behind, beyond those that were stored already.
struct StoreQuery {
  RetentionClass kind = RetentionClass::once;
  std::int64_t units = 0;
  std::int64_t times_seen = 0;     ///< How often the prefix came by, this time included.
  std::int64_t reuse_permille = 0; ///< Expected chance of a hit before it expires.
  std::int64_t saved_ps = 0;       ///< Computing that one hit on all of them saves.
  std::int64_t write_ps = 0;       ///< What writing them costs.
  std::int64_t expires_us = 0;     ///< Of the longest-lived holder so far; 0 = none.
};

struct StorePlan {
  bool store = false;
  std::int64_t expires_us =
      0; ///< From then on it may be evicted first; it stays usable until then.
};

/// Places of units in the question, in the order in which they go.
struct Eviction {
  std::vector<std::uint32_t> units;
  std::int64_t bytes = 0;
};

/// Keeps and evicts.
///
/// Contract, on top of the one in policy.hpp:
///   Cost     store O(1); evict O(n log n)
///   Errors   evict: no value, with a reason, when nothing may go
///   @post    evict: distinct units with refs = 0; none before its children that are in the
///            question; none with children elsewhere; it stops once bytes_needed are reached
///
/// Source: policies.md sections 7.2 and 7.3.
class RetentionPolicy : public Policy {
public:
  virtual Decision<StorePlan> store(const StoreQuery& query, const PolicyContext& ctx) noexcept = 0;
  /// @param units  candidates in any order
  virtual Decision<Eviction> evict(std::span<const RetentionUnit> units, std::int64_t bytes_needed,
                                   const PolicyContext& ctx) noexcept = 0;
};

// Each returns ok, or an error that says which rule of the interface the decision breaks. Pure.

Status validate(const Decision<StorePlan>& decision, const StoreQuery& query);
Status validate(const Decision<Eviction>& decision, std::span<const RetentionUnit> units,
                std::int64_t bytes_needed);

} // namespace troupe::sched
