#include "schedulers/stage/prefill_table.hpp"

#include "schedulers/model/queue_estimate.hpp"

#include <algorithm>

namespace troupe::sched {

void PrefillTable::refresh_work(PrefillEntry& entry) const {
  entry.view.work_ps = cost_model.marginal_ps(entry.view.remaining(), entry.view.done);
}

std::int64_t PrefillTable::work_ps(const PrefillDesk& desk, std::int64_t now_us) const {
  std::int64_t work = 0;
  for (const RequestRef& ref : desk.requests) {
    work = add_saturated(work, entries.at(ref).view.work_ps);
  }
  constexpr std::int64_t kPicosPerMicro = 1'000'000;
  const std::int64_t elapsed_us = std::max<std::int64_t>(0, now_us - desk.answered_us);
  const std::int64_t elapsed_ps = elapsed_us > desk.in_flight_ps / kPicosPerMicro
                                      ? desk.in_flight_ps
                                      : elapsed_us * kPicosPerMicro;
  work = std::max<std::int64_t>(0, work - elapsed_ps);
  return with_step_overhead(work, cost_model.step_ps, desk.budget_ps);
}

std::int64_t PrefillTable::largest_budget_ps() const {
  std::int64_t budget_ps = 0;
  for (const auto& [id, rank] : book.ranks()) {
    if (prefills(rank.up.role)) budget_ps = std::max(budget_ps, desks.at(id).budget_ps);
  }
  return budget_ps;
}

RankView PrefillTable::prefill_view(const RankEntry& rank, std::int64_t now_us) const {
  const PrefillDesk& desk = desks.at(rank.up.rank.rank);
  RankView view = RankBook::view(rank);
  view.queued = static_cast<std::int64_t>(desk.requests.size());
  for (const RequestRef& ref : desk.requests) {
    const RequestView& request = entries.at(ref).view;
    view.queued_tokens += request.total();
    view.uncached_tokens += request.remaining();
  }
  view.work_ps = work_ps(desk, now_us);
  return view;
}

std::vector<RankView> PrefillTable::prefill_views(std::int64_t now_us) const {
  std::vector<RankView> views;
  for (const auto& [id, rank] : book.ranks()) {
    if (prefills(rank.up.role)) views.push_back(prefill_view(rank, now_us));
  }
  return views;
}

bool PrefillTable::could_end(const PlacementQuery& query, const RankView& rank) const {
  if (!could_fit(query, rank)) return false;
  if (decodes(rank.role)) return true;
  if (query.request.new_tokens_max - query.request.answered <= 1) return true;
  bool known = false;
  for (const auto& [id, other] : book.ranks()) {
    if (!decodes(other.up.role)) continue;
    known = true;
    if (could_fit(query, RankBook::view(other))) return true;
  }
  for (const auto& [id, up] : book.away()) {
    if (decodes(up.role) && could_fit(query, RankBook::view(up))) return true;
  }
  return !known; // A decode rank may still join.
}

bool PrefillTable::never_fits(const PrefillEntry& entry) const {
  const PlacementQuery query{entry.view, {}};
  bool known = false;
  for (const auto& [id, rank] : book.ranks()) {
    if (!prefills(rank.up.role)) continue;
    known = true;
    if (could_end(query, RankBook::view(rank))) return false;
  }
  for (const auto& [id, up] : book.away()) {
    if (prefills(up.role) && could_end(query, RankBook::view(up))) return false;
  }
  return known;
}

std::string PrefillTable::why_never(const PrefillEntry& entry) const {
  std::int64_t prefill_max = 0; // A request needs a place in both.
  std::int64_t decode_max = 0;
  std::int64_t context_max = 0;
  for (const auto& [id, rank] : book.ranks()) {
    const std::int64_t tokens = rank.up.kv_blocks * rank.up.block_tokens;
    if (prefills(rank.up.role)) prefill_max = std::max(prefill_max, tokens);
    if (decodes(rank.up.role)) decode_max = std::max(decode_max, tokens);
    context_max = std::max(context_max, rank.up.context_max);
  }
  const std::int64_t tokens_max = decode_max > 0 ? std::min(prefill_max, decode_max) : prefill_max;
  const bool worst = entry.view.claim.reservation == Reservation::worst;
  const std::int64_t answer = worst ? entry.view.new_tokens_max : entry.view.answered;
  std::string text = std::string("the request needs ") + (worst ? "up to " : "at least ") +
                     std::to_string(entry.view.positions_least()) + " tokens (prompt " +
                     std::to_string(entry.view.prompt) +
                     (worst ? ", new tokens " : ", answered so far ") + std::to_string(answer) +
                     "); the largest rank holds " + std::to_string(tokens_max);
  if (context_max > 0) text += " and the context ends at " + std::to_string(context_max);
  return text + "; shorten it, lower max_tokens, or raise kv.memory";
}

bool PrefillTable::untried_left(const PrefillEntry& entry) const {
  const PlacementQuery query{entry.view, {}};
  return std::any_of(book.ranks().begin(), book.ranks().end(), [&](const auto& item) {
    return prefills(item.second.up.role) && entry.tried.count(item.first) == 0 &&
           could_end(query, RankBook::view(item.second));
  });
}

Load PrefillTable::load_now(std::int64_t now_us) const {
  Load load;
  load.waiting = static_cast<std::int64_t>(waiting.size());
  load.waiting_tokens = waiting_tokens;
  for (const RankView& rank : prefill_views(now_us)) {
    if (rank.draining) continue;
    load.least_work_ps =
        load.ranks == 0 ? rank.work_ps : std::min(load.least_work_ps, rank.work_ps);
    ++load.ranks;
  }
  return load;
}

void PrefillTable::take_progress(const RankReport& report, std::vector<Standing>& moved) {
  for (const Progress& progress : report.progress) {
    const auto found = entries.find(progress.ref);
    if (found == entries.end() || found->second.rank != report.rank) continue;
    PrefillEntry& entry = found->second;
    if (entry.where != PrefillWhere::assigned) continue;
    entry.view.done = std::clamp<std::int64_t>(progress.done, 0, entry.view.total());
    entry.planned = std::clamp(progress.planned, entry.view.done, entry.view.total());
    refresh_work(entry);
    if (entry.view.remaining() == 0) {
      entry.where = PrefillWhere::finished;
      desks.at(report.rank.rank).requests.erase(progress.ref);
    } else {
      moved.push_back({progress.ref, report.rank, entry.view.done});
    }
  }
  for (const RequestRef& ref : report.freed) {
    const auto found = entries.find(ref);
    if (found != entries.end() && found->second.rank == report.rank) erase(ref);
  }
}

void PrefillTable::enqueue(const PrefillEntry& entry) {
  if (waiting.insert(entry.view.ref).second) waiting_tokens += entry.view.remaining();
}

void PrefillTable::dequeue(const PrefillEntry& entry) {
  if (waiting.erase(entry.view.ref) != 0) waiting_tokens -= entry.view.remaining();
}

void PrefillTable::leave_rank(PrefillEntry& entry) {
  if (entry.where == PrefillWhere::waiting) return;
  if (RankEntry* rank = book.current(entry.rank)) rank->promises.erase(entry.view.ref);
  if (const auto desk = desks.find(entry.rank.rank); desk != desks.end()) {
    desk->second.requests.erase(entry.view.ref);
  }
  assigning.erase(entry.serial);
}

void PrefillTable::erase(const RequestRef& ref) {
  const auto found = entries.find(ref);
  if (found == entries.end()) return;
  leave_rank(found->second);
  dequeue(found->second);
  entries.erase(found);
}

void PrefillTable::back_to_queue(PrefillEntry& entry) {
  leave_rank(entry);
  entry.where = PrefillWhere::waiting;
  entry.rank = {};
  entry.view.done = 0;
  entry.planned = 0;
  refresh_work(entry);
  enqueue(entry);
}

std::optional<std::int64_t> PrefillTable::pause_ends_us(std::int64_t now_us) const {
  std::optional<std::int64_t> first_us;
  for (const RequestRef& ref : waiting) {
    const std::int64_t until_us = entries.at(ref).not_before_us;
    if (until_us > now_us) first_us = std::min(until_us, first_us.value_or(until_us));
  }
  return first_us;
}

std::vector<RequestRef> PrefillTable::keys() const {
  std::vector<RequestRef> all;
  all.reserve(entries.size());
  for (const auto& [ref, entry] : entries)
    all.push_back(ref);
  return all;
}

} // namespace troupe::sched
