#include "schedulers/policies/scored/scored_balancer.hpp"

#include <array>

namespace troupe::sched {
namespace {

std::int64_t count_and_kv(const PlacementQuery&, const RankView& rank, std::size_t,
                          const PolicyContext& ctx) {
  return ctx.cost_model->decode_load_ps(rank.running, rank.context_tokens);
}
std::int64_t count(const PlacementQuery&, const RankView& rank, std::size_t, const PolicyContext&) {
  return rank.running;
}
std::int64_t kv(const PlacementQuery&, const RankView& rank, std::size_t, const PolicyContext&) {
  return rank.context_tokens;
}
std::int64_t blocks(const PlacementQuery&, const RankView& rank, std::size_t,
                    const PolicyContext&) {
  return -rank.kv_blocks_free;
}

constexpr std::array<NamedMeasure, 4> kMeasures = {{{"count_and_kv", count_and_kv},
                                                    {"least_count", count},
                                                    {"least_kv", kv},
                                                    {"most_blocks", blocks}}};

} // namespace

ScoredOptions scored_balancer_options(OptionTable& table) {
  return scored_options(table, kMeasures, true);
}

} // namespace troupe::sched
