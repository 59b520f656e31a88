#include "schedulers/policies/prefill_router/round_robin.hpp"

#include <charconv>

namespace troupe::sched {

Decision<Placement> RoundRobinRouter::route(const PlacementQuery& query,
                                            std::span<const RankView> ranks,
                                            const PolicyContext& /*ctx*/) noexcept {
  const RankView* first = nullptr; // Lowest id with room: where a turn begins again.
  for (const RankView& rank : ranks) {
    if (!has_room(query, rank)) continue;
    if (first == nullptr) first = &rank;
    if (static_cast<std::int64_t>(raw(rank.rank.rank)) > last_) {
      first = &rank;
      break;
    }
  }
  if (first == nullptr) return {std::nullopt, Reason::no_room};
  last_ = static_cast<std::int64_t>(raw(first->rank.rank));
  return {Placement{first->rank.rank, {}}, Reason::next_in_turn};
}

std::string RoundRobinRouter::export_state() const { return std::to_string(last_); }

void RoundRobinRouter::import_state(const std::string& state) {
  std::int64_t last = -1;
  const auto parsed = std::from_chars(state.data(), state.data() + state.size(), last);
  last_ = parsed.ec == std::errc{} ? last : -1;
}

} // namespace troupe::sched
