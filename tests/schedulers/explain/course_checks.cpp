// What happened in a stretch of a request's time, and what went before it.

#include "tests/schedulers/explain/checker.hpp"

#include <algorithm>
#include <optional>
#include <set>

namespace troupe::sched::testing {
namespace {

/// Records of one kind in a stretch.
std::vector<const Record*> records(const Witness& witness, const Stretch& stretch,
                                   const std::string& kind) {
  std::vector<const Record*> found;
  for (std::size_t i = stretch.first; i < stretch.last; ++i) {
    const auto* record = std::get_if<Record>(&witness.entries()[i].what);
    if (record != nullptr && record->kind == kind) found.push_back(record);
  }
  return found;
}

/// Where every request was when entry `place` came, found from the beginning of the run.
struct Place {
  RequestRef ref;
  Phase phase{};
  RankRef rank;
  std::int64_t arrival_us = 0;
  bool over = false;
};

std::map<RequestId, Place> places_at(const Witness& witness, std::size_t place) {
  std::map<RequestId, Place> places;
  for (std::size_t i = 0; i < place; ++i) {
    const LedgerEntry& entry = witness.entries()[i];
    const auto* milestone = std::get_if<Milestone>(&entry.what);
    if (milestone == nullptr) continue;
    const bool known = places.count(milestone->ref.request) != 0;
    Place& one = places[milestone->ref.request];
    if (!known) one.arrival_us = entry.at_us;
    if (one.over || milestone->ref.attempt < one.ref.attempt) continue;
    one.ref = milestone->ref;
    one.phase = milestone->phase;
    one.rank = milestone->rank;
    one.over = milestone->phase == Phase::ended;
  }
  return places;
}

// -- what happened -------------------------------------------------------------------------------

/// "(epoch 3)" or "(2 epochs, 3 to 7)", with what else is said in the brackets.
const std::string kEpochsForm = R"( \((?:epoch (\d+)|(\d+) epochs, (\d+) to (\d+))([^)]*)\))";

/// Whether the brackets are true of these decisions: every epoch of theirs, and nothing else.
std::string check_epochs(const std::vector<const Record*>& made, const std::smatch& m,
                         std::size_t at) {
  std::set<PolicyEpoch> epochs;
  for (const Record* record : made)
    epochs.insert(record->epoch);
  if (epochs.empty()) return "it decided nothing of it";
  const bool one = m[at].matched;
  const std::int64_t first = whole(one ? m[at] : m[at + 2]);
  const std::int64_t last = whole(one ? m[at] : m[at + 3]);
  return first_of(
      {differs("epochs", static_cast<std::int64_t>(epochs.size()), one ? 1 : whole(m[at + 1])),
       differs("first epoch", static_cast<std::int64_t>(raw(*epochs.begin())), first),
       differs("last epoch", static_cast<std::int64_t>(raw(*epochs.rbegin())), last)});
}

/// Whether `made` are all by the policies that `text` names, each as often as it says.
std::string check_shares(const std::vector<const Record*>& made, std::string text) {
  static const std::regex share("^(?:(\\d+) by queue policy )?(\\S+)" + kEpochsForm +
                                R"(: (\w+)(?:, (?=\d)|$))");
  std::size_t told = 0;
  for (std::smatch m; !text.empty(); text = m.suffix().str()) {
    if (!std::regex_search(text, m, share)) return "no policy is named where one should be";
    std::vector<const Record*> its;
    for (const Record* record : made) {
      const bool replaced = record->reason == Reason::replaced_invalid;
      const bool canary =
          std::visit([](const auto& asked) { return asked->canary; }, *record->asked);
      const std::string extra = std::string(canary ? ", canary" : "") +
                                (replaced ? ", in place of an invalid answer" : "");
      if (record->policy == m[2].str() && reason_name(record->reason) == m[8].str() &&
          extra == m[7].str()) {
        its.push_back(record);
      }
    }
    const std::string problem = first_of(
        {check_epochs(its, m, 3),
         m[1].matched ? differs("orders", static_cast<std::int64_t>(its.size()), whole(m[1]))
                      : ""});
    if (!problem.empty()) return problem;
    told += its.size();
  }
  return told == made.size() ? "" : "orders of a policy are not told";
}

std::string check_order(const Witness& witness, const Stretch& stretch, const Match& m) {
  const RankRef rank = m[1].matched ? stretch.rank : RankRef{};
  if (m[1].matched && witness.rank_name(rank.rank) != m[1]) return "another rank";
  std::vector<std::int64_t> ahead;
  std::vector<const Record*> made;
  for (const Record* record : records(witness, stretch, "queue")) {
    if (record->rank != rank) continue;
    const auto& asked = question_of<QueueQuestion>(*record);
    const auto& positions = asked.answer.value->positions;
    const auto found = std::find_if(positions.begin(), positions.end(), [&](std::uint32_t i) {
      return asked.question.waiting[i].ref == stretch.ref;
    });
    if (found == positions.end()) continue;
    ahead.push_back(found - positions.begin());
    made.push_back(record);
  }
  if (ahead.empty()) return "it was in no order";
  const bool more = m[3].matched;
  if (!more && ahead.size() != 1) return "there were more orders";
  return first_of(
      {differs("ahead at first", ahead.front(), whole(m[2])),
       more ? differs("ahead at last", ahead.back(), whole(m[3])) : "",
       check_shares(made, (more ? m[4].str() : "1") + " by queue policy " + m[5].str())});
}

struct Packed {
  std::int64_t slices = 0, tokens = 0;
  std::set<RequestId> requests;
};

/// Slices for the rank of a stretch that `wanted(record, ref)` picks.
template <class Wanted>
Packed packed(const Witness& witness, const Stretch& stretch, const Wanted& wanted) {
  Packed out;
  for (const Record* record : records(witness, stretch, "prefill_chunker")) {
    if (record->rank != stretch.rank) continue;
    const auto& asked = question_of<ChunkerQuestion>(*record);
    if (!asked.answer.value) continue;
    for (const Share& share : asked.answer.value->shares) {
      const RequestRef ref = asked.question.requests.at(share.candidate).ref;
      if (!wanted(*record, ref)) continue;
      ++out.slices;
      out.tokens += share.tokens;
      out.requests.insert(ref.request);
    }
  }
  return out;
}

std::string check_own_slices(const Witness& witness, const Stretch& stretch, const Match& m) {
  const bool replaced = m[6].str().find("invalid") != std::string::npos;
  std::vector<const Record*> made;
  const Packed own = packed(witness, stretch, [&](const Record& record, const RequestRef& ref) {
    if (ref != stretch.ref || record.policy != m[1].str() ||
        (record.reason == Reason::replaced_invalid) != replaced) {
      return false;
    }
    made.push_back(&record);
    return true;
  });
  return first_of({check_epochs(made, m, 2), differs("slices", own.slices, whole(m[7])),
                   differs("tokens", own.tokens, whole(m[8]))});
}

std::string check_other_slices(const Witness& witness, const Stretch& stretch, const Match& m) {
  if (witness.rank_name(stretch.rank.rank) != m[4]) return "another rank";
  const Packed others = packed(
      witness, stretch, [&](const Record&, const RequestRef& ref) { return ref != stretch.ref; });
  return first_of(
      {differs("slices", others.slices, whole(m[1])),
       differs("requests", static_cast<std::int64_t>(others.requests.size()), whole(m[2])),
       differs("tokens", others.tokens, whole(m[3]))});
}

struct Stepped {
  std::int64_t steps = 0, with_it = 0, tokens = 0, beside = 0;
};

Stepped stepped(const Witness& witness, const Stretch& stretch) {
  Stepped out;
  Stretch wide = stretch;
  wide.first = std::min(stretch.first, stretch.moved);
  const std::size_t early =
      records(witness, wide, "step").size() - records(witness, stretch, "step").size();
  std::size_t place = 0;
  for (const Record* record : records(witness, wide, "step")) {
    const bool before = place++ < early; // In the move: counts from the first step with it on.
    if (record->rank != stretch.rank) continue;
    const auto& asked = question_of<StepQuestion>(*record);
    std::int64_t own = 0;
    std::int64_t others = 0;
    for (const std::uint32_t i : asked.answer.value->decodes)
      ++(asked.question.decodes.at(i).ref == stretch.ref ? own : others);
    for (const Share& share : asked.answer.value->slices)
      own += asked.question.slices.at(share.candidate).ref == stretch.ref ? share.tokens : 0;
    if (before && own == 0 && out.steps == 0) continue;
    ++out.steps;
    out.with_it += own > 0 ? 1 : 0;
    out.tokens += own;
    if (own > 0) out.beside = std::max(out.beside, others);
  }
  return out;
}

std::string check_steps(const Witness& witness, const Stretch& stretch, const Match& m) {
  if (witness.rank_name(stretch.rank.rank) != m[1]) return "another rank";
  const Stepped found = stepped(witness, stretch);
  return first_of({differs("steps", found.steps, whole(m[2])),
                   differs("with it", found.with_it, whole(m[3])),
                   differs("tokens", found.tokens, m[4].matched ? whole(m[4]) : 0)});
}

std::string check_beside(const Witness& witness, const Stretch& stretch, const Match& m) {
  return differs("sequences beside it", stepped(witness, stretch).beside, whole(m[1]));
}

std::string check_others_there(const Witness& witness, const Stretch& stretch, const Match& m) {
  // The life that the refusing decision saw, and when: more may happen in the same instant.
  RankRef rank;
  const Record* refusal = nullptr;
  for (const Record* record : stretch.decisions) {
    if (!is_placement(*record) || record->value != 0) continue;
    for (const RankView& view : views_of(*record)) {
      if (witness.rank_name(view.rank.rank) != m[2]) continue;
      rank = view.rank;
      refusal = record;
    }
  }
  if (refusal == nullptr) return "no decision that left it waiting saw that rank";
  std::size_t then = 0;
  while (std::get_if<Record>(&witness.entries()[then].what) != refusal)
    ++then;
  std::int64_t count = 0;
  for (const auto& [request, place] : places_at(witness, then)) {
    if (request == stretch.ref.request || place.over) continue;
    count += place.phase != Phase::waits_for_rank && place.rank == rank ? 1 : 0;
  }
  return differs("others there", count, whole(m[1]));
}

std::string check_finished_before(const Witness& witness, const Stretch& stretch, const Match& m) {
  std::int64_t count = 0;
  for (const auto& [request, place] : places_at(witness, stretch.first)) {
    if (request == stretch.ref.request || place.over) continue;
    count += place.phase == Phase::waits_for_room && place.arrival_us <= stretch.arrival_us ? 1 : 0;
  }
  return differs("finished prefills", count, whole(m[1]));
}

/// When the chunker got it; the beginning of the stretch when it had it, the end when it did not.
std::int64_t entered_us(const Witness& witness, const Stretch& stretch) {
  if (!stretch.by_driver) return stretch.from_us;
  for (std::size_t i = stretch.first; i < stretch.last; ++i) {
    const auto* seen = std::get_if<Observed>(&witness.entries()[i].what);
    if (seen != nullptr && seen->observation.request.ref == stretch.ref &&
        seen->observation.event == QueueEvent::entered) {
      return witness.entries()[i].at_us;
    }
  }
  return stretch.to_us;
}

std::string check_on_its_way(const Witness& witness, const Stretch& stretch, const Match& m) {
  return differs("on its way", entered_us(witness, stretch) - stretch.from_us, micros(m[1]));
}

std::string check_silence(const Witness& witness, const Stretch& stretch, const Match& m) {
  for (std::size_t i = stretch.first; i < stretch.last; ++i) {
    const auto* record = std::get_if<Record>(&witness.entries()[i].what);
    if (record == nullptr) continue;
    if (record->kind == "prefill_router" && record->ref == stretch.ref && record->value == 0) {
      return "the router was asked";
    }
    if (record->kind != "queue" || record->rank != RankRef{}) continue;
    for (const RequestView& view : question_of<QueueQuestion>(*record).question.waiting) {
      if (view.ref == stretch.ref) return "it was ordered";
    }
  }
  return differs("silence", stretch.to_us - entered_us(witness, stretch), micros(m[1]));
}

std::string check_turn(const Witness& witness, const Stretch& stretch, const Match& m) {
  for (std::size_t i = stretch.first; i < stretch.last; ++i) {
    const auto* record = std::get_if<Record>(&witness.entries()[i].what);
    if (record == nullptr || record->ref != stretch.ref) continue;
    if (witness.entries()[i].at_us < stretch.to_us) return "something was decided";
  }
  return differs("silence", stretch.to_us - stretch.from_us, micros(m[1]));
}

std::string check_others_placed(const Witness& witness, const Stretch& stretch, const Match& m) {
  std::int64_t placed = 0;
  std::int64_t left = 0;
  for (const Record* record : records(witness, stretch, m[1])) {
    if (record->ref.request == stretch.ref.request) continue;
    ++(record->rank == RankRef{} && record->value == 0 ? left : placed);
  }
  return first_of({differs("placed", placed, whole(m[2])), differs("left", left, whole(m[3]))});
}

std::string check_no_pull(const Witness& witness, const Stretch& stretch, const Match& m) {
  if (witness.rank_name(stretch.rank.rank) != m[1]) return "another rank";
  for (const Record* record : records(witness, stretch, "prefill_chunker")) {
    if (record->rank == stretch.rank) return "it asked";
  }
  return {};
}

// -- what went before ----------------------------------------------------------------------------

/// Who preempted it: its next token came at once, and it arrived no later.
std::string check_preemption(const Witness& witness, const Stretch& stretch,
                             const std::string& detail, RequestRef victim) {
  static const std::regex form(R"(its room went to request (\d+))");
  std::size_t at = witness.entries().size();
  const Record* record = nullptr;
  for (std::size_t i = 0; i < stretch.first; ++i) {
    const auto* one = std::get_if<Record>(&witness.entries()[i].what);
    if (one == nullptr || one->kind != "preemption" || one->ref != victim) continue;
    record = one;
    at = i;
  }
  if (record == nullptr) return "no rank preempted it";
  std::smatch m;
  if (!std::regex_search(detail, m, form)) return {};
  const RequestId other{static_cast<std::uint64_t>(whole(m[1]))};
  if (places_at(witness, at).at(other).arrival_us > stretch.arrival_us) return "it came later";
  for (std::size_t i = at + 1; i < witness.entries().size(); ++i) {
    const auto* step = std::get_if<Record>(&witness.entries()[i].what);
    if (step == nullptr || step->kind != "step" || step->rank != record->rank) continue;
    for (const DecodeView& view : question_of<StepQuestion>(*step).question.decodes) {
      if (view.ref.request == other) return {};
    }
    return "the other one was not in the next step";
  }
  return "there was no next step";
}

std::string check_try(const Witness& witness, const Stretch& stretch, const Match& m) {
  const std::string detail = m[2];
  for (const Milestone* milestone : stretch.openers) {
    if (static_cast<std::int64_t>(raw(milestone->ref.attempt)) != whole(m[1]) + 1) continue;
    if (milestone->detail != detail) continue;
    if (detail.rfind("preempted: ", 0) != 0) return {};
    const RequestRef victim{milestone->ref.request,
                            Attempt{static_cast<std::uint32_t>(whole(m[1]))}};
    return check_preemption(witness, stretch, detail, victim);
  }
  return "no milestone says so";
}

std::string check_came_back(const Witness& witness, const Stretch& stretch, const Match& m) {
  const bool found =
      std::any_of(stretch.openers.begin(), stretch.openers.end(), [&](const Milestone* milestone) {
        return milestone->phase == Phase::waits_for_rank && milestone->detail == m[2].str() &&
               witness.rank_name(milestone->rank.rank) == m[1].str();
      });
  return found ? "" : "no milestone says so";
}

std::string check_move(const Witness&, const Stretch& stretch, const Match& m) {
  const bool found =
      std::any_of(stretch.openers.begin(), stretch.openers.end(), [&](const Milestone* milestone) {
        return milestone->phase == Phase::waits_for_room && milestone->detail == m[1].str();
      });
  return found ? "" : "no milestone says so";
}

std::string check_live(const Witness& witness, const Stretch& stretch, const Match& m) {
  for (std::size_t i = stretch.first; i < stretch.last; ++i) {
    const auto* live = std::get_if<SetLive>(&witness.entries()[i].what);
    if (live == nullptr || live->set.name != m[1].str()) continue;
    return first_of(
        {differs("epoch", static_cast<std::int64_t>(raw(live->set.epoch)), whole(m[2])),
         differs("time", witness.entries()[i].at_us - stretch.arrival_us, micros(m[3])),
         swap_cause_name(live->how) == m[4].str() ? "" : "another cause",
         m[5].str() == (live->reason.empty() ? "" : ", " + live->reason) ? "" : "another reason"});
  }
  return "no such set went live";
}

std::string check_gone(const Witness& witness, const Stretch& stretch, const Match& m) {
  for (std::size_t i = stretch.first; i < stretch.last; ++i) {
    const auto* change = std::get_if<RankChange>(&witness.entries()[i].what);
    if (change == nullptr || change->up || change->rank != stretch.rank) continue;
    return first_of(
        {change->name == m[1].str() ? "" : "another rank",
         differs("time", witness.entries()[i].at_us - stretch.arrival_us, micros(m[2]))});
  }
  return "no rank was gone";
}

} // namespace

std::vector<Checker> course_checkers() {
  return {
      {"others there", form(R"((\d+) other requests? w(?:as|ere) on (\S+) then)"),
       check_others_there},
      {"orders by several",
       form(R"((?:on (\S+) )?(\d+) requests? went before it)"
            R"((?: at first and (\d+) at last, in (\d+) orders?)? by queue policy )"
            R"((.+ by queue policy .+))"),
       check_order},
      {"order",
       form(R"((?:on (\S+) )?(\d+) requests? went before it)"
            R"((?: at first and (\d+) at last, in (\d+) orders?)? by queue policy (.+))"),
       check_order},
      {"own slices",
       form(R"(prefill_chunker policy (\S+))" + kEpochsForm +
            R"( packed (\d+) slices? of it with (\d+) tokens?)"),
       check_own_slices},
      {"other slices",
       form(R"((\d+) slices? of (\d+) other requests? with (\d+) tokens? w(?:as|ere) )"
            R"(packed for (\S+))"),
       check_other_slices},
      {"steps", form(R"((\S+) began (\d+) steps?, (\d+) with it(?: \((\d+) tokens? of it\))?)"),
       check_steps},
      {"beside", form(R"(up to (\d+) other sequences? decoded in a step with it)"), check_beside},
      {"on its way", form("it was on its way to the queue for (.+)"), check_on_its_way},
      {"silence",
       form("nothing was decided about it for (.+): the chunker decides while a prefill rank has a "
            "free slot and a free block"),
       check_silence},
      {"turn",
       form("nothing was decided about it for (.+): the balancer decides while a decode rank has "
            "a free slot"),
       check_turn},
      {"others placed",
       form(kPlacementForm + R"( found a rank for (\d+) others meanwhile, and none for (\d+))"),
       check_others_placed},
      {"no pull", form(R"((\S+) asked for no slices meanwhile)"), check_no_pull},
      {"try", form(R"(try (\d+) ended: (.+))"), check_try},
      {"came back", form(R"(it came back from (\S+): (.+))"), check_came_back},
      {"move", form("the move before failed: (.+)"), check_move},
      {"finished before",
       form(R"((\d+) finished prefills? of requests that arrived no later waited for a decode )"
            "rank too"),
       check_finished_before},
      {"set live",
       form(R"lit(policy set "(.*)" \(epoch (\d+)\) went live (.+) after its arrival: )lit"
            R"((\w+)(.*))"),
       check_live},
      {"gone", form(R"((\S+) was gone (.+) after its arrival)"), check_gone},
  };
}

} // namespace troupe::sched::testing
