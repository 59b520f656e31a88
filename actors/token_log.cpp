#include "actors/token_log.hpp"

#include "schedulers/core/check.hpp"

#include <algorithm>

namespace troupe::actors {

namespace {

bool contains(const std::vector<std::int32_t>& ids, std::int32_t token) {
  return std::find(ids.begin(), ids.end(), token) != ids.end();
}

} // namespace

std::int32_t SequenceLog::token_at(std::int64_t position) const {
  TROUPE_CHECK(position >= 0 && position < tokens(), "a position outside the token log");
  auto at = static_cast<std::size_t>(position);
  if (at < work.prompt.size()) return work.prompt[at];
  at -= work.prompt.size();
  if (at < work.answered.size()) return work.answered[at];
  return drawn[at - work.answered.size()];
}

void TokenLog::put(RequestRef ref, SequenceLog log) {
  sequences_[ref] = std::move(log);
  recent_.make_room(sequences_.size());
}

void TokenLog::forget(RequestRef ref) {
  recent_.forget(ref);
  sequences_.erase(ref);
}

SequenceLog* TokenLog::look(const RequestRef& ref) const {
  if (SequenceLog* kept = recent_.find(ref)) return kept;
  const auto found = sequences_.find(ref);
  if (found == sequences_.end()) return nullptr;
  auto* log = const_cast<SequenceLog*>(&found->second);
  recent_.keep(ref, log);
  return log;
}

const SequenceLog* TokenLog::find(RequestRef ref) const { return look(ref); }

sched::EndReason TokenLog::draw(RequestRef ref, std::int32_t token) {
  SequenceLog* known = look(ref);
  TROUPE_CHECK(known != nullptr, "a token of an unknown sequence");
  TROUPE_CHECK(!known->ended, "a token after the end of its sequence");
  SequenceLog& log = *known;
  log.drawn.push_back(token);
  const sched::EndReason end = end_of(log, token);
  log.ended = end != sched::EndReason::none;
  return end;
}

sched::EndReason TokenLog::end_of(const SequenceLog& log, std::int32_t token) const {
  if (!log.work.sampling.ignore_eos && contains(eos_ids_, token)) return sched::EndReason::eos;
  if (contains(log.work.stop_ids, token)) return sched::EndReason::stop_id;
  if (log.answered() >= log.work.new_tokens_max) return sched::EndReason::length;
  return sched::EndReason::none;
}

void TokenLog::suppressed(const SequenceLog& log, std::int64_t answered,
                          std::vector<std::int32_t>& out) const {
  if (answered >= log.work.sampling.new_tokens_min) return;
  if (!log.work.sampling.ignore_eos) out.insert(out.end(), eos_ids_.begin(), eos_ids_.end());
  out.insert(out.end(), log.work.stop_ids.begin(), log.work.stop_ids.end());
}

} // namespace troupe::actors
