#include "schedulers/stage/decode_stage.hpp"

#include "schedulers/core/rng.hpp"
#include "schedulers/stage/handoff_stage.hpp"
#include "schedulers/stage/rank_book.hpp"
#include "schedulers/stage/retry_timer.hpp"
#include "schedulers/stage/slot_pack.hpp"
#include "schedulers/stage/views.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::sched {
namespace {

constexpr std::int64_t kEarlyShare = 10; ///< Of the wait for an answer: its beginning.

/// A request between the end of its prefill and its own end, in order.
enum class Where : std::uint8_t {
  waiting,     ///< For room or its turn; the source keeps it under a lease.
  handing_off, ///< A try is under way in the handoff stage.
  decoding,    ///< Adopted: the decode rank owns it.
};

/// (arrival of the first attempt, order of the PrefillDone): a preempted request keeps its place.
using Turn = std::pair<std::int64_t, std::uint64_t>;

struct Entry {
  PrefillDone done;
  Where where = Where::waiting;
  RankRef target;
  std::uint32_t tries = 0;        ///< That failed.
  std::set<RankId> avoid;         ///< Ranks of failed tries, while others are left.
  bool blocked = false;           ///< "No room" is in the ledger already.
  std::int64_t not_before_us = 0; ///< A refused one pauses, so that it cannot spin.
  Turn turn;                      ///< Its place in the queue.
};

} // namespace

struct DecodeStage::State {
  DecodeOptions options;
  SlotDesk<DecodeSlots> slots;
  Rng rng;
  DecodeCounts counts;
  RankBook book;
  std::map<RankId, Incarnation> dead; ///< Newest life of each rank that ended.
  HandoffStage handoffs;
  std::map<RequestRef, Entry> entries;
  std::map<Turn, RequestRef> waiting;
  std::set<RequestRef> cancelled;
  std::deque<RequestRef> cancelled_order;
  std::uint64_t arrivals = 0;
  bool renewing = false;
  RetryTimer retry;

  State(const DecodeOptions& given, const PolicySet& set, const PolicyRegistry& registry)
      : options(given), slots({StageKind::decode, {}}, set, registry),
        rng(draw(given.seed, 2, Purpose::policy)),
        handoffs(given.lease_us, given.handoff_timeout_us) {}

  // -- helpers -----------------------------------------------------------------------------------

  QuestionContext context(std::int64_t now_us) {
    QuestionContext ctx;
    ctx.now_us = now_us;
    ctx.seed = rng.bits();
    ctx.cost_model = options.cost_model;
    return ctx;
  }

  template <class Question>
  Answered<Question> decide(Question question, Effects& effects) {
    return slots.decide(std::move(question), counts.invalid_decisions, effects);
  }

  std::vector<RankView> decode_views() const {
    std::vector<RankView> views;
    for (const auto& [id, rank] : book.ranks()) {
      if (decodes(rank.up.role)) views.push_back(RankBook::view(rank));
    }
    return views;
  }

  std::int64_t& count_of(Where where) {
    return where == Where::waiting       ? counts.waiting
           : where == Where::handing_off ? counts.handing_off
                                         : counts.decoding;
  }

  void move(Entry& entry, Where where) {
    --count_of(entry.where);
    entry.where = where;
    ++count_of(where);
  }

  /// A refused rank counts as full until it reports; the timer bounds that, should nothing come.
  void retry_later(std::int64_t now_us, Effects& effects) {
    retry.at(now_us + options.retry_us, effects);
  }

  void keep_renewing(std::int64_t now_us, Effects& effects) {
    if (renewing) return;
    renewing = true;
    effects.timer(TimerKind::renew, 0, now_us + std::max<std::int64_t>(1, options.lease_us / 3));
  }

  // -- table -------------------------------------------------------------------------------------

  void leave_target(const Entry& entry) {
    if (RankEntry* rank = book.current(entry.target)) rank->promises.erase(entry.done.ref);
  }

  void erase(const RequestRef& ref) {
    const auto found = entries.find(ref);
    leave_target(found->second);
    waiting.erase(found->second.turn);
    handoffs.drop(ref);
    --count_of(found->second.where);
    entries.erase(found);
  }

  void wait(Entry& entry) {
    leave_target(entry);
    move(entry, Where::waiting);
    entry.target = {};
    waiting[entry.turn] = entry.done.ref;
  }

  /// Stops a request here: whoever holds it may free it.
  void give_up(const RequestRef& ref, ErrorCode reason, Effects& effects) {
    Entry& entry = entries.at(ref);
    if (entry.where == Where::decoding) {
      effects.send_rank(Release{ref, entry.target, reason});
    } else {
      handoffs.cancel(ref, reason, effects);
      effects.send_rank(Release{ref, entry.done.rank, reason});
    }
    erase(ref);
  }

  void end(const RequestRef& ref, ErrorCode code, bool retryable, std::string detail,
           Effects& effects) {
    give_up(ref, code, effects);
    effects.send(Peer::driver, Ended{ref, code, retryable, std::move(detail)});
  }

  void remember_cancelled(const RequestRef& ref) {
    if (options.cancelled_max <= 0 || !cancelled.insert(ref).second) return;
    cancelled_order.push_back(ref);
    while (static_cast<std::int64_t>(cancelled_order.size()) > options.cancelled_max) {
      cancelled.erase(cancelled_order.front());
      cancelled_order.pop_front();
    }
  }

  // -- placement ---------------------------------------------------------------------------------

  /// Places what fits, in the order of the requests' arrival. As in the prefill queue, a request
  /// without room keeps every rank that could ever hold it from those behind it.
  void dispatch(std::int64_t now_us, Effects& effects) {
    if (waiting.empty()) return;
    std::vector<RankView> ranks = decode_views();
    const auto open = [](const RankView& rank) {
      return !rank.draining && !rank.held && rank.slots_free >= 1;
    };
    const std::map<Turn, RequestRef> order = waiting;
    for (const auto& [turn, ref] : order) {
      if (std::none_of(ranks.begin(), ranks.end(), open)) return;
      Entry& entry = entries.at(ref);
      const PlacementQuery query{view_of(entry.done), entry.done.rank};
      const Verdict verdict = now_us < entry.not_before_us
                                  ? Verdict::no_room
                                  : place(entry, query, ranks, now_us, effects);
      if (verdict == Verdict::never) {
        end(ref, ErrorCode::never_fits, false, why_never(query), effects);
      } else if (verdict == Verdict::no_room) {
        for (RankView& rank : ranks)
          rank.held = rank.held || could_fit(query, rank);
      }
    }
  }

  /// What the set before held back is put to the one that is live now.
  template <class Event>
  void swap(const Event& event, std::int64_t now_us, Effects& effects) {
    const PolicyEpoch before = slots.epoch();
    slots.on(event, now_us, effects);
    if (slots.epoch() != before) dispatch(now_us, effects);
  }

  enum class Verdict : std::uint8_t { placed, no_room, paced, never };

  Verdict place(Entry& entry, const PlacementQuery& query, std::vector<RankView>& ranks,
                std::int64_t now_us, Effects& effects) {
    const bool fits = std::any_of(ranks.begin(), ranks.end(),
                                  [&](const RankView& rank) { return could_fit(query, rank); });
    if (!fits) return fits_when_back(query) ? Verdict::paced : Verdict::never;
    if (!may_start(entry, query, now_us, effects)) return Verdict::paced;
    std::vector<RankView> views = ranks;
    avoid_failed(entry, query, views);
    const auto answered = decide(
        BalancerQuestion{context(now_us), query.request, query.source, std::move(views)}, effects);
    const auto& decision = answered.decision();
    if (decision.value || !entry.blocked) {
      Record made = slots->of<BalancerQuestion>().record(answered);
      made.ref = entry.done.ref;
      made.value = decision.value ? 1 : 0;
      made.view_age_us = oldest_age_us(answered.question().ranks, now_us);
      std::vector<std::int64_t> scores;
      if (decision.value) scores = decision.value->scores;
      made.candidates = candidates_of(query, answered.question().ranks, scores);
      if (decision.value) made.rank = book.find(decision.value->rank)->up.rank;
      effects.add(std::move(made));
    }
    entry.blocked = !decision.value;
    if (!decision.value) {
      retry.named(decision.retry_at_us, options.retry_us, now_us, effects);
      return Verdict::no_room;
    }
    RankEntry& target = *book.find(decision.value->rank);
    start(entry, target, blocks_needed(query, RankBook::view(target)), now_us, effects);
    for (RankView& rank : ranks) {
      if (rank.rank != target.up.rank) continue;
      rank = RankBook::view(target);
    }
    return Verdict::placed;
  }

  bool fits_when_back(const PlacementQuery& query) const {
    return std::any_of(book.away().begin(), book.away().end(), [&](const auto& item) {
      return decodes(item.second.role) && could_fit(query, RankBook::view(item.second));
    });
  }

  /// Asks the handoff policy; after "later" again whenever a transfer ends, and at its time.
  bool may_start(Entry& entry, const PlacementQuery& query, std::int64_t now_us, Effects& effects) {
    const HandoffQuery ask{query.request, entry.done.rank, entry.tries,
                           handoffs.transfers_of(entry.done.rank), handoffs.transfers()};
    const auto answered = decide(HandoffQuestion{context(now_us), ask}, effects);
    const bool now = answered.decision().value.has_value();
    if (!now) retry.named(answered.decision().retry_at_us, options.retry_us, now_us, effects);
    if (now && entry.blocked) return true; // Its start is in the ledger already.
    if (now || !entry.blocked) {
      Record made = slots->of<HandoffQuestion>().record(answered);
      made.ref = entry.done.ref;
      made.rank = entry.done.rank;
      made.value = now ? 1 : 0;
      effects.add(std::move(made));
    }
    if (!now) entry.blocked = true;
    return now;
  }

  /// Ranks of failed tries are left out as long as another one could ever hold the request.
  static void avoid_failed(const Entry& entry, const PlacementQuery& query,
                           std::vector<RankView>& views) {
    const auto avoided = [&](const RankView& view) {
      return entry.avoid.count(view.rank.rank) != 0;
    };
    const bool others = std::any_of(views.begin(), views.end(), [&](const RankView& view) {
      return !avoided(view) && !view.draining && could_fit(query, view);
    });
    if (!others) return;
    for (RankView& view : views)
      view.held = view.held || avoided(view);
  }

  void start(Entry& entry, RankEntry& target, std::int64_t blocks, std::int64_t now_us,
             Effects& effects) {
    Promise promise;
    promise.blocks = entry.done.in_place ? 0 : blocks;
    promise.positions = entry.done.positions;
    promise.room_confirmed = promise.room_covered = entry.done.in_place;
    target.promises[entry.done.ref] = promise;
    move(entry, Where::handing_off);
    entry.target = target.up.rank;
    waiting.erase(entry.turn);
    effects.add(Milestone{entry.done.ref, Phase::handing_off, entry.target, 0, {}});
    handoffs.start(entry.done, target.up.rank, now_us, effects);
    counts.transfers += entry.done.in_place ? 0 : 1;
  }

  std::string why_never(const PlacementQuery& query) const {
    std::int64_t largest = 0;
    for (const auto& [id, rank] : book.ranks()) {
      if (decodes(rank.up.role)) {
        largest = std::max(largest, rank.up.kv_blocks * rank.up.block_tokens);
      }
    }
    return "the request needs up to " + std::to_string(query.request.positions_max()) +
           " tokens of KV; the largest decode rank holds " + std::to_string(largest) +
           "; lower max_tokens or give kv.memory more";
  }

  // -- outcomes ----------------------------------------------------------------------------------

  void failed(const HandoffOutcome& outcome, std::int64_t now_us, Effects& effects) {
    Entry& entry = entries.at(outcome.ref);
    if (outcome.code == ErrorCode::no_room && !entry.done.in_place) {
      wait(entry); // The view was behind; waiting for room is no try.
      effects.add(
          Milestone{outcome.ref, Phase::waits_for_room, entry.done.rank, 0, outcome.detail});
      entry.not_before_us = now_us + options.retry_us;
      retry_later(now_us, effects);
      return;
    }
    // A rank reads no mail in a step. The next try goes elsewhere if there is an elsewhere.
    entry.tries += outcome.in_step ? 0 : 1;
    entry.avoid.insert(entry.target.rank);
    // An in-place sequence is where it is: if the rank does not have it, nobody does.
    const bool lost = entry.done.in_place && outcome.code != ErrorCode::transfer_failed;
    if (lost || entry.tries >= options.attempts_max) {
      const ErrorCode code =
          outcome.code == ErrorCode::stale ? ErrorCode::transfer_failed : outcome.code;
      end(outcome.ref, code, true, outcome.detail + " (try " + std::to_string(entry.tries) + ")",
          effects);
      return;
    }
    ++counts.retried;
    wait(entry);
    effects.add(Milestone{outcome.ref, Phase::waits_for_room, entry.done.rank, 0, outcome.detail});
    if (entry.done.in_place) adopt_in_place(entry, now_us, effects);
  }

  /// The rank decodes where it prefilled; there is nothing to choose.
  void adopt_in_place(Entry& entry, std::int64_t now_us, Effects& effects) {
    RankEntry* rank = book.current(entry.done.rank);
    if (rank == nullptr) {
      end(entry.done.ref, ErrorCode::rank_lost, true, "the rank that holds it is gone", effects);
      return;
    }
    Record made = slots->of<BalancerQuestion>().record_without_question(Reason::in_place);
    made.ref = entry.done.ref;
    made.rank = entry.done.rank;
    made.value = 1;
    made.view_age_us = now_us - rank->as_of_us;
    effects.add(std::move(made));
    start(entry, *rank, 0, now_us, effects);
  }

  /// Whether the target of a try has been in a step since it was asked: it holds sequences, and
  /// reports come between steps. One that comes early in the wait may have left before the question
  /// arrived. Who is in a step for ever is given up by the supervisor, and a request that waits for
  /// ever by the driver.
  bool target_in_step(HandoffId id) {
    const Handoff* handoff = handoffs.find(id);
    const RankEntry* rank = handoff == nullptr ? nullptr : book.current(handoff->target);
    return rank != nullptr && rank->report.slots_reserved > 0 &&
           rank->as_of_us - handoff->asked_us <= options.handoff_timeout_us / kEarlyShare;
  }

  void settle(const HandoffOutcome& outcome, RankRef rank, std::int64_t now_us, Effects& effects) {
    switch (outcome.what) {
    case HandoffOutcome::What::nothing:
      break;
    case HandoffOutcome::What::stale:
      ++counts.stale_dropped;
      break;
    case HandoffOutcome::What::reserved:
      if (RankEntry* target = book.current(rank)) {
        const auto promise = target->promises.find(outcome.ref);
        if (promise != target->promises.end()) promise->second.room_confirmed = true;
      }
      break;
    case HandoffOutcome::What::adopted: {
      Entry& entry = entries.at(outcome.ref);
      move(entry, Where::decoding);
      effects.add(Milestone{outcome.ref, Phase::decoding, entry.target, 0, {}});
      counts.in_place += entry.done.in_place ? 1 : 0;
      entry.done.manifest.clear();
      if (RankEntry* target = book.current(rank)) {
        const auto promise = target->promises.find(outcome.ref);
        if (promise != target->promises.end()) promise->second.run_confirmed = true;
      }
      break;
    }
    case HandoffOutcome::What::failed:
      failed(outcome, now_us, effects);
      break;
    }
    dispatch(now_us, effects);
  }

  // -- ranks -------------------------------------------------------------------------------------

  /// Requests that a rank holds or is about to hold.
  void rank_gone(RankRef gone, std::int64_t now_us, Effects& effects) {
    book.remove(gone);
    dead[gone.rank] = gone.incarnation;
    std::vector<RequestRef> touched;
    for (const auto& [ref, entry] : entries) {
      if (entry.done.rank == gone || entry.target == gone) touched.push_back(ref);
    }
    for (const RequestRef& ref : touched) {
      Entry& entry = entries.at(ref);
      const bool holder =
          entry.where == Where::decoding ? entry.target == gone : entry.done.rank == gone;
      if (holder) {
        if (entry.where != Where::decoding) handoffs.cancel(ref, ErrorCode::rank_lost, effects);
        effects.send(Peer::driver,
                     Ended{ref, ErrorCode::rank_lost, true, "the rank that held it is gone"});
        erase(ref);
      } else if (entry.where == Where::handing_off) {
        handoffs.drop(ref);
        failed({HandoffOutcome::What::failed, ref, ErrorCode::rank_lost, "its decode rank is gone"},
               now_us, effects);
      }
    }
  }
};

DecodeStage::DecodeStage(const DecodeOptions& options, const PolicySet& set,
                         const PolicyRegistry& registry)
    : state_(std::make_unique<State>(options, set, registry)) {}

DecodeStage::~DecodeStage() = default;

const DecodeCounts& DecodeStage::counts() const noexcept { return state_->counts; }

void DecodeStage::on(const PrefillDone& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (s.cancelled.count(event.ref) != 0) {
    s.cancelled.erase(event.ref);
    s.cancelled_order.erase(
        std::find(s.cancelled_order.begin(), s.cancelled_order.end(), event.ref));
    effects.send_rank(Release{event.ref, event.rank, ErrorCode::cancelled});
    return;
  }
  if (s.entries.count(event.ref) != 0) {
    ++s.counts.stale_dropped;
    return;
  }
  const auto died = s.dead.find(event.rank.rank);
  if (died != s.dead.end() && died->second >= event.rank.incarnation) {
    effects.send(Peer::driver,
                 Ended{event.ref, ErrorCode::rank_lost, true, "the rank that held it is gone"});
    return;
  }
  if (static_cast<std::int64_t>(s.waiting.size()) >= s.options.waiting_max) {
    effects.send_rank(Release{event.ref, event.rank, ErrorCode::no_room});
    effects.send(Peer::driver, Ended{event.ref, ErrorCode::no_room, true,
                                     "too many finished prefills wait for a decode rank"});
    return;
  }
  Entry entry;
  entry.done = event;
  entry.turn = {event.arrival_us, ++s.arrivals};
  Entry& kept = s.entries.emplace(event.ref, std::move(entry)).first->second;
  ++s.counts.waiting;
  effects.add(Milestone{event.ref, Phase::waits_for_room, event.rank, 0, {}});
  s.keep_renewing(now_us, effects);
  if (event.in_place) {
    s.adopt_in_place(kept, now_us, effects);
  } else {
    s.wait(kept);
    s.dispatch(now_us, effects);
  }
}

void DecodeStage::on(const Cancel& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (s.entries.count(event.ref) == 0) {
    s.remember_cancelled(event.ref);
    return;
  }
  s.give_up(event.ref, event.reason, effects);
  s.dispatch(now_us, effects);
}

void DecodeStage::on(const Reserved& event, std::int64_t now_us, Effects& effects) {
  state_->settle(state_->handoffs.on(event, now_us, effects), event.rank, now_us, effects);
}

void DecodeStage::on(const Refused& event, std::int64_t now_us, Effects& effects) {
  const HandoffOutcome outcome = state_->handoffs.on(event);
  if (outcome.what == HandoffOutcome::What::failed && event.reason == ErrorCode::no_room) {
    if (RankEntry* rank = state_->book.current(event.rank)) rank->refused = true;
  }
  state_->settle(outcome, event.rank, now_us, effects);
}

void DecodeStage::on(const TransferDone& event, std::int64_t now_us, Effects& effects) {
  state_->settle(state_->handoffs.on(event, now_us, effects), event.rank, now_us, effects);
}

void DecodeStage::on(const Adopted& event, std::int64_t now_us, Effects& effects) {
  state_->settle(state_->handoffs.on(event, effects), event.rank, now_us, effects);
}

void DecodeStage::on(const RankReport& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (!s.book.take(event, now_us)) {
    ++s.counts.stale_dropped;
    return;
  }
  for (const RequestRef& ref : event.freed) {
    const auto found = s.entries.find(ref);
    if (found == s.entries.end()) continue;
    // The source of a finished handoff frees too; only the owner's word ends the request here.
    if (found->second.where == Where::decoding && found->second.target == event.rank) s.erase(ref);
  }
  s.dispatch(now_us, effects);
}

void DecodeStage::on(const RankUp& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (const RankEntry* old = s.book.find(event.rank.rank);
      old != nullptr && old->up.rank.incarnation < event.rank.incarnation) {
    s.rank_gone(old->up.rank, now_us, effects);
  }
  if (!s.book.add(event, now_us)) {
    ++s.counts.stale_dropped;
    return;
  }
  s.dispatch(now_us, effects);
}

void DecodeStage::on(const RankDown& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (const RankEntry* rank = s.book.current(event.rank)) {
    const RankUp up = rank->up;
    s.rank_gone(event.rank, now_us, effects);
    if (event.comes_back) s.book.expect_back(up);
  } else if (event.comes_back || !s.book.give_up(event.rank.rank)) {
    ++s.counts.stale_dropped;
    return;
  }
  s.dispatch(now_us, effects);
}

void DecodeStage::on(const SwapPrepare& event, std::int64_t now_us, Effects& effects) {
  state_->swap(event, now_us, effects);
}

void DecodeStage::on(const SwapCommit& event, std::int64_t now_us, Effects& effects) {
  state_->swap(event, now_us, effects);
}

void DecodeStage::on(const SwapAbort& event, std::int64_t /*now_us*/, Effects& /*effects*/) {
  state_->slots.on(event);
}

void DecodeStage::on(const Timer& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (event.kind == TimerKind::swap) return s.slots.on(event, now_us);
  if (event.kind == TimerKind::handoff) {
    const bool in_step = s.target_in_step(HandoffId{event.key});
    const HandoffOutcome outcome = s.handoffs.on_timeout(event.key, in_step, now_us, effects);
    if (outcome.what == HandoffOutcome::What::failed) s.settle(outcome, {}, now_us, effects);
    return;
  }
  if (event.kind == TimerKind::retry) {
    if (!s.retry.fires(now_us)) return;
    s.book.forget_refusals();
    s.dispatch(now_us, effects);
    const bool paused = std::any_of(s.waiting.begin(), s.waiting.end(), [&](const auto& item) {
      return now_us < s.entries.at(item.second).not_before_us;
    });
    if (paused) s.retry_later(now_us, effects);
    return;
  }
  if (event.kind != TimerKind::renew) return;
  s.renewing = false;
  for (const auto& [ref, entry] : s.entries) {
    if (entry.where == Where::decoding) continue;
    s.keep_renewing(now_us, effects);
    effects.send_rank(Renew{ref, entry.done.rank, HandoffId{}, s.options.lease_us});
    s.handoffs.renew(ref, effects);
  }
}

} // namespace troupe::sched
