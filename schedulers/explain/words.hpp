// Numbers and records as words.

#pragma once

#include "schedulers/model/rank_view.hpp"
#include "schedulers/stage/effects.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::sched {

using RankNames = std::map<RankId, std::string>;

/// The rank's name, or "rank 3" where it has none.
std::string rank_text(const RankNames& names, RankId rank);

/// Exact: "850 us", "12.345 ms", "12.345678 s".
std::string duration_text(std::int64_t us);

/// "1 request", "3 requests".
std::string count_text(std::int64_t count, std::string_view noun);

std::string join(const std::vector<std::string>& parts, std::string_view between);

/// "prefill_router policy least_work (epoch 1)", and whether it was a canary or a replacement.
std::string policy_text(const Record& record);

/// The same of several decisions of one policy: "(epoch 1)", or "(3 epochs, 1 to 5)".
std::string policy_text(const Record& record, const std::set<PolicyEpoch>& epochs);

/// Whether two records are told in the same words, but for their epochs.
bool same_words(const Record& a, const Record& b);

/// Whether the canary of the kind answered.
bool is_canary(const Record& record);

/// The answered question of a record, when it is of that kind and was kept.
template <class Question>
const AskedOf<Question>* asked_of(const Record& record) noexcept {
  if (!record.asked) return nullptr;
  const auto* found = std::get_if<AskedPtr<Question>>(&*record.asked);
  return found == nullptr ? nullptr : found->get();
}

/// The question of a placement, of either kind.
struct AskedPlacement {
  PlacementQuery query;
  std::span<const RankView> ranks;      ///< Empty: the question was not kept.
  std::span<const std::int64_t> scores; ///< [ranks] or empty.
};

/// Valid while the record lives.
AskedPlacement placement_of(const Record& record);

/// What `rank` lacked for `query`; "" when it had room.
std::string lacks_text(const PlacementQuery& query, const RankView& rank);

} // namespace troupe::sched
