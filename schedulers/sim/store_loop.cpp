#include "schedulers/sim/store_loop.hpp"

#include "schedulers/kv/seen_sketch.hpp"

#include <algorithm>
#include <map>
#include <vector>

namespace troupe::sim {
namespace {

using sched::SegmentId;

class Loop {
public:
  Loop(sched::RetentionPolicy& policy, const StoreLoopOptions& options)
      : policy_(policy), options_(options), book_(options.segments) {}

  void serve(const StoreUse& use) {
    forget(book_.drop_ended(use.at_us), totals.ended);
    ++totals.uses;
    const auto kept = units_.find(use.unit);
    const bool hit = kept != units_.end();
    totals.hits += hit ? 1 : 0;
    sched::StoreQuery query;
    query.kind = use.kind;
    query.units = options_.units_per_use;
    query.times_seen = seen_.add(use.unit);
    query.expires_us = hit ? kept->second.expires_us : 0;
    sched::PolicyContext ctx;
    ctx.now_us = use.at_us;
    ctx.rng = &rng_;
    ctx.cost_model = &model_;
    const auto plan = policy_.store(query, ctx);
    if (!sched::validate(plan, query).ok()) {
      ++totals.invalid;
      return;
    }
    if (!plan.value->store) return;
    const std::int64_t ttl_us = plan.value->expires_us - use.at_us;
    if (hit && !book_.worth_copying(use.at_us, kept->second.expires_us, ttl_us)) return;
    ++(hit ? totals.copied : totals.written);
    write(use, plan.value->expires_us);
  }

  StoreTotals totals;

private:
  struct Kept {
    SegmentId segment{};
    std::int64_t expires_us = 0;
  };

  void write(const StoreUse& use, std::int64_t expires_us) {
    forget(book_.drop_for(options_.unit_bytes), totals.lost);
    const SegmentId segment = book_.append(use.kind, options_.unit_bytes, expires_us);
    units_[use.unit] = {segment, expires_us};
    contents_[segment].push_back(use.unit);
    totals.bytes_most = std::max(totals.bytes_most, book_.bytes());
  }

  /// A unit that was copied lives in a later segment too, and goes with that one.
  void forget(const std::vector<SegmentId>& segments, std::int64_t& count) {
    for (const SegmentId segment : segments) {
      ++totals.segment_drops;
      for (const std::uint64_t unit : contents_[segment]) {
        const auto kept = units_.find(unit);
        if (kept == units_.end() || kept->second.segment != segment) continue;
        units_.erase(kept);
        ++count;
      }
      contents_.erase(segment);
    }
  }

  sched::RetentionPolicy& policy_;
  const StoreLoopOptions& options_;
  sched::SegmentBook book_;
  Rng rng_{1};
  sched::CostModel model_;
  std::map<std::uint64_t, Kept> units_;
  sched::SeenSketch seen_;
  std::map<SegmentId, std::vector<std::uint64_t>> contents_;
};

} // namespace

StoreTotals run_store(sched::RetentionPolicy& policy, std::span<const StoreUse> uses,
                      const StoreLoopOptions& options) {
  Loop loop(policy, options);
  for (const StoreUse& use : uses)
    loop.serve(use);
  return loop.totals;
}

} // namespace troupe::sim
