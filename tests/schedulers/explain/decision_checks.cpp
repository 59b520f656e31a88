// What policies decided, and on what grounds.

#include "tests/schedulers/explain/checker.hpp"

#include <algorithm>
#include <optional>
#include <set>

namespace troupe::sched::testing {
namespace {

PlacementQuery query_of(const Record& record) {
  return record.kind == "prefill_router" ? question_of<RouterQuestion>(record).question.query()
                                         : question_of<BalancerQuestion>(record).question.query();
}

std::vector<std::int64_t> scores_of(const Record& record) {
  const auto& value = record.kind == "prefill_router"
                          ? question_of<RouterQuestion>(record).answer.value
                          : question_of<BalancerQuestion>(record).answer.value;
  return value ? value->scores : std::vector<std::int64_t>();
}

/// The decision of the request that the words name, at the first instant of the stretch.
const Record* named(const Stretch& stretch, const std::string& kind, const std::string& policy,
                    const std::string& epoch, const std::string& extra, const std::string& reason) {
  for (const Record* record : stretch.decisions) {
    if (record->kind != kind || record->policy != policy ||
        raw(record->epoch) != static_cast<std::uint64_t>(whole(epoch)) ||
        reason_name(record->reason) != reason) {
      continue;
    }
    const bool canary = std::visit([](const auto& asked) { return asked->canary; }, *record->asked);
    const bool replaced = record->reason == Reason::replaced_invalid;
    const std::string wanted =
        std::string(canary ? ", canary" : "") + (replaced ? ", in place of an invalid answer" : "");
    if (extra == wanted) return record;
  }
  return nullptr;
}

std::string check_admission(const Witness&, const Stretch& stretch, const Match& m) {
  const Record* record = named(stretch, "admission", m[1], m[2], m[3], m[4]);
  return record != nullptr && record->value == 1 ? "" : "there is no such decision";
}

std::string check_choice(const Witness& witness, const Stretch& stretch, const Match& m) {
  if (m[1] == "decode_balancer" && m[6] == "in_place") { // Nobody was asked.
    const bool found =
        std::any_of(stretch.decisions.begin(), stretch.decisions.end(), [&](const Record* record) {
          return record->reason == Reason::in_place && record->policy == m[2].str() &&
                 witness.rank_name(record->rank.rank) == m[5].str();
        });
    return found ? "" : "there is no such decision";
  }
  const Record* record = named(stretch, m[1], m[2], m[3], m[4], m[6]);
  if (record == nullptr) return "there is no such decision";
  if (witness.rank_name(record->rank.rank) != m[5]) return "another rank was chosen";
  const auto& views = views_of(*record);
  const std::vector<std::int64_t> scores = scores_of(*record);
  std::optional<std::int64_t> best;
  std::string best_name;
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (scores.empty() != !m[7].matched) return "scores are told or not told wrongly";
    if (scores.empty()) break;
    if (views[i].rank == record->rank) {
      if (scores[i] != whole(m[7])) return "another score";
    } else if (has_room(query_of(*record), views[i]) && (!best || scores[i] < *best)) {
      best = scores[i];
      best_name = witness.rank_name(views[i].rank.rank);
    }
  }
  if (best.has_value() != m[8].matched) return "a second best is told or not told wrongly";
  if (!best) return {};
  return first_of({differs("second best", *best, whole(m[8])),
                   best_name == m[9].str() ? "" : "another second best"});
}

std::string check_no_choice(const Witness&, const Stretch& stretch, const Match& m) {
  const Record* record = named(stretch, m[1], m[2], m[3], m[4], m[5]);
  return record != nullptr && record->value == 0 ? "" : "there is no such decision";
}

std::string check_waits(const Witness&, const Stretch& stretch, const Match& m) {
  const Record* record = named(stretch, "handoff", m[1], m[2], m[3], m[4]);
  return record != nullptr && record->value == 0 ? "" : "there is no such decision";
}

/// What the view of a rank says it lacked, piece by piece.
std::set<std::string> lacks(const PlacementQuery& query, const RankView& view) {
  if (!could_fit(query, view)) return {"it could never hold it"};
  std::set<std::string> out;
  if (view.draining) out.insert("it is draining");
  if (view.held) out.insert("it was kept for others");
  if (view.slots_free == 0) out.insert("no free slot");
  const std::int64_t needed = blocks_needed(query, view);
  if (view.kv_blocks_free < needed) {
    out.insert(std::to_string(view.kv_blocks_free) + " free blocks of " + std::to_string(needed) +
               " needed");
  }
  return out;
}

std::set<std::string> pieces(const std::string& text) {
  std::set<std::string> out;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(", ", begin), text.size());
    out.insert(text.substr(begin, end - begin));
    begin = end + 2;
  }
  return out;
}

std::string check_lacks(const Witness& witness, const Stretch& stretch, const Match& m) {
  for (const Record* record : stretch.decisions) {
    if (!is_placement(*record) || !record->asked) continue;
    for (const RankView& view : views_of(*record)) {
      if (witness.rank_name(view.rank.rank) != m[1]) continue;
      if (lacks(query_of(*record), view) == pieces(m[2])) return {};
    }
  }
  return "no view of the rank says so";
}

std::string check_left_alone(const Witness& witness, const Stretch& stretch, const Match& m) {
  for (const Record* record : stretch.decisions) {
    if (!is_placement(*record) || record->value != 0) continue;
    for (const RankView& view : views_of(*record)) {
      if (witness.rank_name(view.rank.rank) != m[1] || !lacks(query_of(*record), view).empty()) {
        continue;
      }
      return first_of({differs("free", view.kv_blocks_free, whole(m[2])),
                       differs("needed", blocks_needed(query_of(*record), view), whole(m[3]))});
    }
  }
  return "no such view";
}

std::string check_age(const Witness&, const Stretch& stretch, const Match& m) {
  const bool found =
      std::any_of(stretch.decisions.begin(), stretch.decisions.end(), [&](const Record* record) {
        if (record->view_age_us != micros(m[1])) return false;
        if (!is_placement(*record)) return record->kind == "admission";
        if (!record->asked) return true;
        std::int64_t oldest_us = stretch.from_us;
        for (const RankView& view : views_of(*record))
          oldest_us = std::min(oldest_us, view.as_of_us);
        return stretch.from_us - oldest_us == micros(m[1]);
      });
  return found ? "" : "no decision used a report of that age";
}

} // namespace

std::vector<Checker> decision_checkers() {
  return {
      {"admission", form("admission" + kPolicyForm + R"( let it in: (\w+))"), check_admission},
      {"choice",
       form(kPlacementForm + kPolicyForm +
            R"( chose (\S+): (\w+)(?:, score (-?\d+))?(?: against (-?\d+) of (\S+))?)"),
       check_choice},
      {"no choice", form(kPlacementForm + kPolicyForm + R"( chose no rank: (\w+))"),
       check_no_choice},
      {"held back", form("handoff" + kPolicyForm + R"( let it wait: (\w+))"), check_waits},
      {"lacks", form(R"((\S+) could not take it: (.+))"), check_lacks},
      {"left alone",
       form(R"((\S+) had room that the policy left alone: (\d+) free blocks of (\d+) needed)"),
       check_left_alone},
      {"age", form("it went by reports up to (.+) old"), check_age},
  };
}

} // namespace troupe::sched::testing
