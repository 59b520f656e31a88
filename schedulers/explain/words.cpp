#include "schedulers/explain/words.hpp"

namespace troupe::sched {
namespace {

/// "12.345" of 12345 thousandths, with all their places.
std::string fraction(std::int64_t value, std::int64_t unit, std::size_t places) {
  const std::string part = std::to_string(value % unit);
  return std::to_string(value / unit) + "." + std::string(places - part.size(), '0') + part;
}

template <class Question>
AskedPlacement placement_of(const AskedOf<Question>& asked) {
  AskedPlacement out{asked.question.query(), asked.question.ranks, {}};
  if (asked.answer.value) out.scores = asked.answer.value->scores;
  return out;
}

} // namespace

std::string rank_text(const RankNames& names, RankId rank) {
  const auto found = names.find(rank);
  return found == names.end() ? "rank " + std::to_string(raw(rank)) : found->second;
}

std::string duration_text(std::int64_t us) {
  if (us < 0) return std::string("-").append(duration_text(-us));
  if (us < 1'000) return std::to_string(us) + " us";
  if (us < 10'000'000) return fraction(us, 1'000, 3) + " ms";
  return fraction(us, 1'000'000, 6) + " s";
}

std::string count_text(std::int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string join(const std::vector<std::string>& parts, std::string_view between) {
  std::string out;
  for (const std::string& part : parts)
    out.append(out.empty() ? "" : between).append(part);
  return out;
}

std::string policy_text(const Record& record) { return policy_text(record, {record.epoch}); }

std::string policy_text(const Record& record, const std::set<PolicyEpoch>& epochs) {
  std::string out = record.kind + " policy " + record.policy + " (";
  if (epochs.size() == 1) {
    out += "epoch " + std::to_string(raw(*epochs.begin()));
  } else {
    out += std::to_string(epochs.size()) + " epochs, " + std::to_string(raw(*epochs.begin())) +
           " to " + std::to_string(raw(*epochs.rbegin()));
  }
  if (is_canary(record)) out += ", canary";
  if (record.reason == Reason::replaced_invalid) out += ", in place of an invalid answer";
  return out + ")";
}

bool same_words(const Record& a, const Record& b) {
  const bool replaced = a.reason == Reason::replaced_invalid;
  return a.kind == b.kind && a.policy == b.policy && is_canary(a) == is_canary(b) &&
         replaced == (b.reason == Reason::replaced_invalid);
}

bool is_canary(const Record& record) {
  return record.asked && std::visit([](const auto& asked) { return asked->canary; }, *record.asked);
}

AskedPlacement placement_of(const Record& record) {
  if (const auto* router = asked_of<RouterQuestion>(record)) return placement_of(*router);
  if (const auto* balancer = asked_of<BalancerQuestion>(record)) return placement_of(*balancer);
  return {};
}

std::string lacks_text(const PlacementQuery& query, const RankView& rank) {
  if (has_room(query, rank)) return {};
  if (!could_fit(query, rank)) return "it could never hold it";
  std::vector<std::string> parts;
  if (rank.draining) parts.emplace_back("it is draining");
  if (rank.held) parts.emplace_back("it was kept for others");
  if (rank.slots_free < 1) parts.emplace_back("no free slot");
  const std::int64_t needed = blocks_needed(query, rank);
  if (needed > rank.kv_blocks_free) {
    parts.push_back(std::to_string(rank.kv_blocks_free) + " free blocks of " +
                    std::to_string(needed) + " needed");
  }
  return join(parts, ", ");
}

} // namespace troupe::sched
