#include "schedulers/policies/scored/scored_router.hpp"

#include "schedulers/core/rng.hpp"

#include <array>

namespace troupe::sched {
namespace {

std::int64_t work(const PlacementQuery&, const RankView& rank, std::size_t, const PolicyContext&) {
  return rank.work_ps;
}
std::int64_t requests(const PlacementQuery&, const RankView& rank, std::size_t,
                      const PolicyContext&) {
  return rank.queued;
}
std::int64_t tokens(const PlacementQuery&, const RankView& rank, std::size_t,
                    const PolicyContext&) {
  return rank.queued_tokens;
}
std::int64_t uncached(const PlacementQuery&, const RankView& rank, std::size_t,
                      const PolicyContext&) {
  return rank.uncached_tokens;
}
std::int64_t local_hit(const PlacementQuery& query, const RankView&, std::size_t place,
                       const PolicyContext&) {
  return -query.local_hit(place);
}
/// As session_hash: the rank of a session counts lowest.
std::int64_t session(const PlacementQuery& query, const RankView& rank, std::size_t,
                     const PolicyContext&) {
  const std::uint64_t hash = mix64(query.request.session_hash ^ mix64(raw(rank.rank.rank)));
  return -static_cast<std::int64_t>(hash >> 1);
}

constexpr std::array<NamedMeasure, 6> kMeasures = {{{"least_work", work},
                                                    {"least_requests", requests},
                                                    {"least_tokens", tokens},
                                                    {"least_uncached", uncached},
                                                    {"local_hit", local_hit},
                                                    {"session", session}}};

} // namespace

ScoredOptions scored_router_options(OptionTable& table) {
  return scored_options(table, kMeasures, false);
}

} // namespace troupe::sched
