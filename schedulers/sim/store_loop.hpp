// A store of KV units in virtual time: a retention policy says what is kept and how long, segments
// say when it goes.

#pragma once

#include "schedulers/kv/segment_book.hpp"
#include "schedulers/kv/unit_chain.hpp"
#include "schedulers/policy/retention_policy.hpp"

#include <cstdint>
#include <span>

namespace troupe::sim {

/// A request that would like a unit.
struct StoreUse {
  std::int64_t at_us = 0;
  std::uint64_t unit = 0;
  sched::RetentionClass kind = sched::RetentionClass::chat;
};

struct StoreLoopOptions {
  sched::SegmentOptions segments;
  std::int64_t unit_bytes = sched::kUnitBytes;
  std::int64_t units_per_use = 2; ///< What a policy hears of the length of a turn.
};

/// What a run came to.
struct StoreTotals {
  std::int64_t uses = 0;
  std::int64_t hits = 0;
  std::int64_t written = 0;       ///< Units that were not there and are stored now.
  std::int64_t copied = 0;        ///< Units written again by a hit, because little time was left.
  std::int64_t ended = 0;         ///< Units that went when their time was over.
  std::int64_t lost = 0;          ///< Units that went before.
  std::int64_t segment_drops = 0; ///< Operations that took for both.
  std::int64_t invalid = 0;       ///< Answers that broke a rule; such a unit is not stored.
  std::int64_t bytes_most = 0;    ///< In segments at any time.
};

/// Serves `uses`, which ascend by time. Ended segments are dropped as time passes.
StoreTotals run_store(sched::RetentionPolicy& policy, std::span<const StoreUse> uses,
                      const StoreLoopOptions& options);

} // namespace troupe::sim
