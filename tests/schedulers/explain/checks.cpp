#include "tests/schedulers/explain/checks.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <regex>
#include <set>

namespace troupe::sched::testing {
namespace {

using Stretch = Witness::Stretch;
using Match = std::smatch;

std::int64_t whole(const std::string& text) { return std::stoll(text); }

/// "850 us", "12.345 ms", "12.345678 s" in microseconds.
std::int64_t micros(const std::string& text) {
  std::string digits;
  for (const char c : text) {
    if (c >= '0' && c <= '9') digits += c;
  }
  return std::stoll(digits); // All places are written.
}

std::string differs(const char* what, std::int64_t found, std::int64_t said) {
  if (found == said) return {};
  return std::string(what) + ": the ledger has " + std::to_string(found) + ", the story says " +
         std::to_string(said);
}

std::string first_of(std::initializer_list<std::string> problems) {
  for (const std::string& problem : problems) {
    if (!problem.empty()) return problem;
  }
  return {};
}

template <class Question>
const AskedOf<Question>& question_of(const Record& record) {
  return **std::get_if<AskedPtr<Question>>(&*record.asked);
}

const std::vector<RankView>& views_of(const Record& record) {
  return record.kind == "prefill_router" ? question_of<RouterQuestion>(record).question.ranks
                                         : question_of<BalancerQuestion>(record).question.ranks;
}

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

bool is_placement(const Record& record) {
  return record.kind == "prefill_router" || record.kind == "decode_balancer";
}

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

struct Checker {
  std::string name;
  std::regex form;
  std::function<std::string(const Witness&, const Stretch&, const Match&)> check;
};

const std::string kPolicy = R"( policy (\S+) \(epoch (\d+)([^)]*)\))";

// -- decisions -----------------------------------------------------------------------------------

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

// -- what happened -------------------------------------------------------------------------------

std::string check_order(const Witness& witness, const Stretch& stretch, const Match& m) {
  const RankRef rank = m[1].matched ? stretch.rank : RankRef{};
  if (m[1].matched && witness.rank_name(rank.rank) != m[1]) return "another rank";
  std::vector<std::int64_t> ahead;
  const Record* last = nullptr;
  for (const Record* record : records(witness, stretch, "queue")) {
    if (record->rank != rank) continue;
    const auto& asked = question_of<QueueQuestion>(*record);
    const auto& positions = asked.answer.value->positions;
    const auto found = std::find_if(positions.begin(), positions.end(), [&](std::uint32_t i) {
      return asked.question.waiting[i].ref == stretch.ref;
    });
    if (found == positions.end()) continue;
    ahead.push_back(found - positions.begin());
    last = record;
  }
  if (ahead.empty()) return "it was in no order";
  const bool more = m[3].matched;
  if (!more && ahead.size() != 1) return "there were more orders";
  return first_of(
      {differs("ahead at first", ahead.front(), whole(m[2])),
       more ? differs("ahead at last", ahead.back(), whole(m[3])) : "",
       more ? differs("orders", static_cast<std::int64_t>(ahead.size()), whole(m[4])) : "",
       last->policy == m[5].str() ? "" : "another policy",
       differs("epoch", static_cast<std::int64_t>(raw(last->epoch)), whole(m[6])),
       reason_name(last->reason) == m[8].str() ? "" : "another reason"});
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
  const bool replaced = m[3].str().find("invalid") != std::string::npos;
  const Packed own = packed(witness, stretch, [&](const Record& record, const RequestRef& ref) {
    return ref == stretch.ref && record.policy == m[1].str() &&
           raw(record.epoch) == static_cast<std::uint64_t>(whole(m[2])) &&
           (record.reason == Reason::replaced_invalid) == replaced;
  });
  return first_of(
      {differs("slices", own.slices, whole(m[4])), differs("tokens", own.tokens, whole(m[5]))});
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
  // The life that the refusing decision saw.
  RankRef rank;
  for (const Record* record : stretch.decisions) {
    if (!is_placement(*record) || record->value != 0) continue;
    for (const RankView& view : views_of(*record)) {
      if (witness.rank_name(view.rank.rank) == m[2]) rank = view.rank;
    }
  }
  std::int64_t count = 0;
  for (const auto& [request, place] : places_at(witness, stretch.first)) {
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

const std::vector<Checker>& checkers() {
  const auto form = [](const std::string& text) { return std::regex("^" + text + "$"); };
  const std::string kind = "(prefill_router|decode_balancer)";
  static const std::vector<Checker> all = {
      {"admission", form("admission" + kPolicy + R"( let it in: (\w+))"), check_admission},
      {"choice",
       form(kind + kPolicy +
            R"( chose (\S+): (\w+)(?:, score (-?\d+))?(?: against (-?\d+) of (\S+))?)"),
       check_choice},
      {"no choice", form(kind + kPolicy + R"( chose no rank: (\w+))"), check_no_choice},
      {"held back", form("handoff" + kPolicy + R"( let it wait: (\w+))"), check_waits},
      {"lacks", form(R"((\S+) could not take it: (.+))"), check_lacks},
      {"left alone",
       form(R"((\S+) had room that the policy left alone: (\d+) free blocks of (\d+) needed)"),
       check_left_alone},
      {"others there", form(R"((\d+) other requests? w(?:as|ere) on (\S+) then)"),
       check_others_there},
      {"age", form("it went by reports up to (.+) old"), check_age},
      {"order",
       form(R"((?:on (\S+) )?(\d+) requests? went before it)"
            R"((?: at first and (\d+) at last, in (\d+) orders?)? by queue)" +
            kPolicy + R"(: (\w+))"),
       check_order},
      {"own slices",
       form("prefill_chunker" + kPolicy + R"( packed (\d+) slices? of it with (\d+) tokens?)"),
       check_own_slices},
      {"other slices",
       form(
           R"((\d+) slices? of (\d+) other requests? with (\d+) tokens? w(?:as|ere) packed for (\S+))"),
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
       form(kind + R"( found a rank for (\d+) others meanwhile, and none for (\d+))"),
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
       form(
           R"lit(policy set "(.*)" \(epoch (\d+)\) went live (.+) after its arrival: (\w+)(.*))lit"),
       check_live},
      {"gone", form(R"((\S+) was gone (.+) after its arrival)"), check_gone},
  };
  return all;
}

} // namespace

Witness::Witness(const std::vector<LedgerEntry>& entries, const std::vector<RankOptions>& ranks)
    : entries_(&entries) {
  for (const RankOptions& rank : ranks)
    names_[rank.rank.rank] = rank.name;
}

std::vector<std::string> Witness::kinds() {
  std::vector<std::string> names;
  for (const Checker& checker : checkers())
    names.push_back(checker.name);
  return names;
}

Verdict Witness::check(const Story& story, const StorySpan& span, const std::string& fact) const {
  for (const Checker& checker : checkers()) {
    std::smatch m;
    if (!std::regex_match(fact, m, checker.form)) continue;
    return {checker.name, checker.check(*this, stretch_of(story, span), m)};
  }
  return {"", "no checker knows such a statement"};
}

Witness::Stretch Witness::stretch_of(const Story& story, const StorySpan& span) const {
  Stretch out;
  out.arrival_us = story.arrival_us;
  out.from_us = story.arrival_us + span.from_us;
  out.to_us = story.arrival_us + span.to_us;
  Attempt attempt{};
  Phase phase = Phase::ended;
  std::size_t moving = 0;
  const auto opens = [&](std::size_t i) {
    if ((*entries_)[i].at_us <= out.from_us) {
      out.first = i + 1;
    } else if (out.last == 0) {
      out.last = i;
    }
  };
  for (std::size_t i = 0; i < entries_->size(); ++i) {
    const LedgerEntry& entry = (*entries_)[i];
    if (const auto* record = std::get_if<Record>(&entry.what)) {
      if (record->ref.request != story.request || record->kind == "queue") continue;
      if (entry.at_us == out.from_us) out.decisions.push_back(record);
      const bool awaited = phase == Phase::waits_for_rank ? record->kind == "prefill_router"
                           : phase == Phase::waits_for_room
                               ? record->kind == "decode_balancer" || record->kind == "handoff"
                               : false;
      if (awaited && record->value == 0 && record->ref.attempt == attempt) opens(i);
      continue;
    }
    const auto* milestone = std::get_if<Milestone>(&entry.what);
    if (milestone == nullptr || milestone->ref.request != story.request) continue;
    if (milestone->ref.attempt < attempt) continue;
    opens(i);
    if (entry.at_us <= out.from_us) {
      const bool moves = phase == Phase::handing_off && milestone->phase == Phase::decoding;
      out.moved = moves ? moving : i + 1;
    }
    attempt = milestone->ref.attempt;
    phase = milestone->phase;
    if (phase == Phase::handing_off) moving = i + 1;
    if (entry.at_us == out.from_us) out.openers.push_back(milestone);
    if (entry.at_us <= out.from_us) {
      out.ref = milestone->ref;
      out.rank = milestone->rank;
      out.by_driver = entry.stage.kind == StageKind::driver;
    }
    if (phase == Phase::ended) break;
  }
  return out;
}

std::string Witness::check_decisions(const Story& story) const {
  std::size_t next = 0;
  for (const LedgerEntry& entry : *entries_) {
    const auto* record = std::get_if<Record>(&entry.what);
    if (record == nullptr || record->ref.request != story.request || record->kind == "queue") {
      continue;
    }
    if (entry.at_us > story.arrival_us + story.latency_us) break;
    if (next == story.decisions.size()) return "a decision is missing";
    const StoryDecision& told = story.decisions[next++];
    if (told.kind != record->kind || told.policy != record->policy || told.epoch != record->epoch ||
        told.reason != record->reason || told.at_us != entry.at_us - story.arrival_us ||
        told.attempt != record->ref.attempt) {
      return "decision " + std::to_string(next) + " is another";
    }
    if (told.candidates.size() != record->candidates.size()) return "other candidates";
    for (std::size_t i = 0; i < told.candidates.size(); ++i) {
      const Candidate& candidate = record->candidates[i];
      if (told.candidates[i].rank.rank != candidate.rank ||
          told.candidates[i].name != rank_name(candidate.rank) ||
          told.candidates[i].feasible != candidate.feasible ||
          told.candidates[i].score.value_or(0) != candidate.score) {
        return "candidate " + std::to_string(i) + " of decision " + std::to_string(next) +
               " is another";
      }
    }
  }
  return next == story.decisions.size() ? "" : "there are too many decisions";
}

} // namespace troupe::sched::testing
