#include "schedulers/stage/rank_book.hpp"

#include <algorithm>
#include <cstddef>

namespace troupe::sched {

bool RankBook::add(const RankUp& up, std::int64_t now_us) {
  const auto found = ranks_.find(up.rank.rank);
  if (found != ranks_.end() && found->second.up.rank.incarnation >= up.rank.incarnation) {
    return false;
  }
  RankEntry entry;
  entry.up = up;
  entry.as_of_us = now_us;
  entry.report.rank = up.rank;
  entry.report.role = up.role;
  entry.report.kv_blocks_free = up.kv_blocks;
  entry.report.kv_blocks_total = up.kv_blocks;
  entry.report.slots_free = up.slots;
  entry.report.slots_total = up.slots;
  ranks_[up.rank.rank] = std::move(entry);
  away_.erase(up.rank.rank);
  return true;
}

bool RankBook::remove(RankRef rank) {
  if (current(rank) == nullptr) return false;
  ranks_.erase(rank.rank);
  return true;
}

bool RankBook::take(const RankReport& report, std::int64_t now_us) {
  RankEntry* entry = current(report.rank);
  if (entry == nullptr || report.seq <= entry->report.seq) return false;
  entry->report = report;
  entry->report.progress.clear();
  entry->report.freed.clear();
  entry->as_of_us = now_us;
  entry->refused = false;
  for (auto it = entry->promises.begin(); it != entry->promises.end();) {
    it->second.room_covered = it->second.room_covered || it->second.room_confirmed;
    it = it->second.run_confirmed ? entry->promises.erase(it) : std::next(it);
  }
  for (const RequestRef& ref : report.freed)
    entry->promises.erase(ref);
  return true;
}

void RankBook::forget_refusals() {
  for (auto& [id, entry] : ranks_)
    entry.refused = false;
}

RankEntry* RankBook::find(RankId rank) {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? nullptr : &found->second;
}

RankEntry* RankBook::current(RankRef rank) {
  RankEntry* entry = find(rank.rank);
  return entry != nullptr && entry->up.rank == rank ? entry : nullptr;
}

RankView RankBook::view(const RankEntry& entry) {
  RankView view;
  view.rank = entry.up.rank;
  view.role = entry.up.role;
  view.draining = entry.report.draining;
  view.block_tokens = std::max<std::int64_t>(1, entry.up.block_tokens);
  view.context_max = entry.up.context_max;
  view.kv_blocks_free = entry.refused ? 0 : entry.report.kv_blocks_free;
  view.kv_blocks_total = entry.report.kv_blocks_total;
  view.slots_free = entry.refused ? 0 : entry.report.slots_free;
  view.slots_total = entry.report.slots_total;
  view.running = entry.report.running;
  view.context_tokens = entry.report.context_tokens;
  view.as_of_us = entry.as_of_us;
  for (const auto& [ref, promise] : entry.promises) {
    if (!promise.room_covered) {
      view.kv_blocks_free -= promise.blocks;
      view.slots_free -= 1;
    }
    view.running += 1;
    view.context_tokens += promise.positions;
  }
  view.kv_blocks_free = std::max<std::int64_t>(0, view.kv_blocks_free);
  view.slots_free = std::max<std::int64_t>(0, view.slots_free);
  return view;
}

RankView RankBook::view(const RankUp& away) {
  RankView view;
  view.rank = away.rank;
  view.role = away.role;
  view.block_tokens = std::max<std::int64_t>(1, away.block_tokens);
  view.context_max = away.context_max;
  view.kv_blocks_total = away.kv_blocks;
  view.slots_total = away.slots;
  return view;
}

std::vector<Candidate> candidates_of(const PlacementQuery& query, std::span<const RankView> ranks,
                                     std::span<const std::int64_t> scores) {
  std::vector<Candidate> list;
  list.reserve(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    list.push_back(
        {ranks[i].rank.rank, i < scores.size() ? scores[i] : 0, has_room(query, ranks[i])});
  }
  return list;
}

std::int64_t oldest_age_us(std::span<const RankView> ranks, std::int64_t now_us) {
  std::int64_t age_us = 0;
  for (const RankView& rank : ranks)
    age_us = std::max(age_us, now_us - rank.as_of_us);
  return age_us;
}

} // namespace troupe::sched
