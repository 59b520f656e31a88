// Round robin over ranks, shared by the kinds that choose one.

#pragma once

#include "schedulers/model/decisions.hpp"
#include "schedulers/model/rank_view.hpp"
#include "schedulers/policy/policy.hpp"

#include <charconv>
#include <cstdint>
#include <span>
#include <string>

namespace troupe::sched {

/// Whose turn it is: the lowest id above the last one chosen, else the lowest of all.
class Turn {
public:
  /// The next rank that passes `filter`.
  template <class Filter>
  Decision<Placement> next(std::span<const RankView> ranks, const Filter& filter) {
    const RankView* chosen = nullptr;
    for (const RankView& rank : ranks) {
      if (!filter(rank)) continue;
      if (chosen == nullptr) chosen = &rank;
      if (static_cast<std::int64_t>(raw(rank.rank.rank)) > last_) {
        chosen = &rank;
        break;
      }
    }
    if (chosen == nullptr) return {std::nullopt, Reason::no_room};
    last_ = static_cast<std::int64_t>(raw(chosen->rank.rank));
    return {Placement{chosen->rank.rank, {}}, Reason::next_in_turn};
  }

  std::string export_state() const { return std::to_string(last_); }

  /// Text that is no state is a fresh start.
  void import_state(const std::string& state) {
    std::int64_t last = -1;
    const auto parsed = std::from_chars(state.data(), state.data() + state.size(), last);
    last_ = parsed.ec == std::errc{} ? last : -1;
  }

private:
  std::int64_t last_ = -1; ///< Number of the rank chosen last; -1 = none yet.
};

} // namespace troupe::sched
