#include "schedulers/stage/prefill_stage.hpp"

#include "schedulers/core/rng.hpp"
#include "schedulers/model/answer_lengths.hpp"
#include "schedulers/model/queue_estimate.hpp"
#include "schedulers/stage/prefill_table.hpp"
#include "schedulers/stage/retry_timer.hpp"
#include "schedulers/stage/slot_pack.hpp"
#include "schedulers/stage/views.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace troupe::sched {
namespace {

using Where = PrefillWhere;
using Entry = PrefillEntry;
using Desk = PrefillDesk;

} // namespace

struct PrefillStage::State : PrefillTable {
  PrefillOptions options;
  SlotDesk<PrefillSlots> slots;
  Rng rng;
  PrefillCounts counts;
  std::uint64_t serial = 0;
  Load sent_load;
  std::vector<Standing> moved;
  RetryTimer retry;
  bool renewing = false; ///< A renew timer is under way.

  State(const PrefillOptions& given, const PolicySet& set, const PolicyRegistry& registry)
      : options(given), slots({StageKind::prefill, {}}, set, registry),
        rng(draw(given.seed, 1, Purpose::policy)) {
    cost_model = given.cost_model;
  }

  // -- helpers -----------------------------------------------------------------------------------

  QuestionContext context(std::int64_t now_us, const RankEntry* rank) {
    QuestionContext ctx;
    ctx.now_us = now_us;
    ctx.seed = rng.bits();
    ctx.cost_model = options.cost_model;
    ctx.step_budget_ps =
        rank == nullptr ? largest_budget_ps() : desks.at(rank->up.rank.rank).budget_ps;
    if (rank != nullptr) ctx.block_tokens = rank->up.block_tokens;
    return ctx;
  }

  template <class Question>
  Answered<Question> decide(Question question, Effects& effects) {
    return slots.decide(std::move(question), counts.invalid_decisions, effects);
  }

  template <class Question>
  Record record(const Answered<Question>& answered) {
    return slots->of<Question>().record(answered);
  }

  /// Step budgets as the chunker of the live set says.
  void refresh_budgets() {
    const PrefillChunker& chunker = slots->of<ChunkerQuestion>().policy();
    for (auto& [id, desk] : desks) {
      desk.budget_ps = chunker.step_budget_ps(cost_model, book.find(id)->up.step_tokens_max);
    }
  }

  void keep_renewing(std::int64_t now_us, Effects& effects) {
    if (renewing || options.lease_us <= 0) return;
    renewing = true;
    effects.timer(TimerKind::renew, 0, now_us + std::max<std::int64_t>(1, options.lease_us / 3));
  }

  void renew_all(std::int64_t now_us, Effects& effects) {
    renewing = false;
    for (const auto& [ref, entry] : entries) {
      if (entry.where != Where::assigned) continue;
      keep_renewing(now_us, effects);
      effects.send_rank(Renew{ref, entry.rank, HandoffId{}, options.lease_us});
    }
  }

  // -- the queue, with the policy's accounts kept -----------------------------------------------

  void tell(const Entry& entry, QueueEvent event, std::int64_t now_us, Effects& effects) {
    const QueueObservation seen{context(now_us, nullptr), entry.view, event};
    slots->of<QueueQuestion>().observe([&](QueuePolicy& policy) { observe(policy, seen); });
    effects.add(Observed{seen, slots.epoch()});
  }

  void admit(Submit&& event, RequestView view, std::int64_t now_us, Effects& effects) {
    const RequestRef ref = event.ref;
    Entry& entry = entries[ref];
    entry.submit = std::move(event);
    entry.view = view;
    enqueue(entry);
    tell(entry, QueueEvent::entered, now_us, effects);
  }

  void remove(const RequestRef& ref, std::int64_t now_us, Effects& effects) {
    const auto found = entries.find(ref);
    if (found == entries.end()) return;
    if (found->second.where == Where::waiting)
      tell(found->second, QueueEvent::left, now_us, effects);
    erase(ref);
  }

  void put_back(Entry& entry, const char* why, std::int64_t now_us, Effects& effects) {
    const RankRef from = entry.rank;
    back_to_queue(entry);
    tell(entry, QueueEvent::returned, now_us, effects);
    effects.add(Milestone{entry.view.ref, Phase::waits_for_rank, from, 0, why});
  }

  /// Ends what no live rank could ever hold, so that the rest is served.
  void end_never_fitting(std::int64_t now_us, Effects& effects) {
    const std::vector<RequestRef> all(waiting.begin(), waiting.end());
    for (const RequestRef& ref : all) {
      const Entry& entry = entries.at(ref);
      if (!never_fits(entry)) continue;
      effects.send(Peer::driver, Ended{ref, ErrorCode::never_fits, false, why_never(entry)});
      remove(ref, now_us, effects);
    }
  }

  // -- routing -----------------------------------------------------------------------------------

  /// Requests that may be routed now, next one first.
  std::vector<RequestRef> ordered_waiting(std::int64_t now_us, Effects& effects) {
    std::vector<RequestView> views;
    for (const RequestRef& ref : waiting) {
      const Entry& entry = entries.at(ref);
      if (entry.not_before_us <= now_us) views.push_back(entry.view);
    }
    std::vector<RequestRef> order;
    if (views.size() == 1) order.push_back(views[0].ref);
    if (views.size() <= 1) return order;
    const auto answered =
        decide(QueueQuestion{context(now_us, nullptr), std::move(views)}, effects);
    for (const std::uint32_t i : answered.decision().value->positions)
      order.push_back(answered.question().waiting[i].ref);
    Record made = record(answered);
    made.ref = order.front();
    made.value = static_cast<std::int64_t>(order.size());
    effects.add(std::move(made));
    return order;
  }

  /// Routes what fits, in order. A request that does not fit now keeps every rank it could ever run
  /// on: nobody behind it may take that room, so it is served as soon as running work ends. Ranks
  /// it could never use stay open to those behind it.
  void dispatch(std::int64_t now_us, Effects& effects) {
    if (waiting.empty()) return;
    std::vector<RankView> ranks = prefill_views(now_us);
    const auto open = [](const RankView& rank) {
      return !rank.draining && !rank.held && rank.slots_free >= 1 && rank.kv_blocks_free >= 1;
    };
    if (std::none_of(ranks.begin(), ranks.end(), open)) return;
    for (const RequestRef& ref : ordered_waiting(now_us, effects)) {
      Entry& entry = entries.at(ref);
      if (!route(entry, ranks, now_us, effects)) {
        const PlacementQuery query{entry.view, {}};
        for (RankView& rank : ranks)
          rank.held = rank.held || could_end(query, rank);
      }
      if (std::none_of(ranks.begin(), ranks.end(), open)) return;
    }
  }

  /// Offers one request to a rank; false when none has room for it.
  bool route(Entry& entry, std::vector<RankView>& ranks, std::int64_t now_us, Effects& effects) {
    const PlacementQuery query{entry.view, {}};
    std::vector<RankView> views = ranks;
    for (RankView& view : views) {
      view.held = view.held || entry.tried.count(view.rank.rank) != 0 || !could_end(query, view);
    }
    const auto answered =
        decide(RouterQuestion{context(now_us, nullptr), entry.view, std::move(views), {}}, effects);
    const auto& decision = answered.decision();
    if (decision.value || !entry.blocked) {
      Record made = record(answered);
      made.ref = entry.view.ref;
      made.view_age_us = oldest_age_us(answered.question().ranks, now_us);
      made.value = decision.value ? 1 : 0;
      std::vector<std::int64_t> scores;
      if (decision.value) scores = decision.value->scores;
      made.candidates = candidates_of(query, answered.question().ranks, scores);
      if (decision.value) made.rank = book.find(decision.value->rank)->up.rank;
      effects.add(std::move(made));
    }
    entry.blocked = !decision.value;
    if (!decision.value) {
      if (!entry.tried.empty()) end_round(entry, now_us, effects);
      retry.named(decision.retry_at_us, options.retry_us, now_us, effects);
      return false;
    }
    RankEntry& rank = *book.find(decision.value->rank);
    assign(entry, rank, now_us, effects);
    for (RankView& view : ranks) {
      if (view.rank.rank != decision.value->rank) continue;
      const bool held = view.held;
      view = prefill_view(rank, now_us);
      view.held = held;
    }
    return true;
  }

  void assign(Entry& entry, RankEntry& rank, std::int64_t now_us, Effects& effects) {
    const PlacementQuery query{entry.view, {}};
    Promise promise;
    promise.blocks = blocks_needed(query, RankBook::view(rank));
    rank.promises[entry.view.ref] = promise;
    entry.where = Where::assigning;
    entry.rank = rank.up.rank;
    entry.serial = ++serial;
    entry.sent = 0;
    dequeue(entry);
    tell(entry, QueueEvent::served, now_us, effects);
    effects.add(Milestone{entry.view.ref, Phase::waits_for_answer, entry.rank, 0, {}});
    desks.at(rank.up.rank.rank).requests.insert(entry.view.ref);
    assigning[entry.serial] = entry.view.ref;
    send_assign(entry, now_us, effects);
  }

  void send_assign(Entry& entry, std::int64_t now_us, Effects& effects) {
    ++entry.sent;
    effects.send_rank(Assign{entry.view.ref, entry.rank, entry.submit.work, entry.view.arrival_us,
                             entry.view.claim, options.lease_us, entry.view.session_hash});
    effects.timer(TimerKind::retry, entry.serial, now_us + options.assign_again_us);
  }

  /// The rank said no, or nothing: other ranks in this round, then the queue for a while.
  void refused(Entry& entry, std::int64_t now_us, Effects& effects) {
    entry.tried.insert(entry.rank.rank);
    ++counts.refused;
    put_back(entry, "the rank refused it", now_us, effects);
    if (entry.tried.size() >= options.attempts_max || !untried_left(entry)) {
      end_round(entry, now_us, effects);
    }
  }

  void end_round(Entry& entry, std::int64_t now_us, Effects& effects) {
    entry.tried.clear();
    entry.not_before_us = now_us + options.retry_us;
    retry.at(entry.not_before_us, effects);
  }

  // -- chunks ------------------------------------------------------------------------------------

  /// Requests of a rank whose prefill goes on, next one first.
  std::vector<RequestView> ordered_work(const Desk& desk, const RankEntry& rank,
                                        std::int64_t now_us, Effects& effects) {
    std::vector<RequestView> views;
    for (const RequestRef& ref : desk.requests) {
      const Entry& entry = entries.at(ref);
      if (entry.where != Where::assigned || entry.planned >= entry.view.total()) continue;
      views.push_back(entry.view);
      RequestView& view = views.back();
      view.done = entry.planned;
      view.work_ps = options.cost_model.marginal_ps(view.remaining(), view.done);
    }
    if (views.size() <= 1) return views;
    const auto answered = decide(QueueQuestion{context(now_us, &rank), std::move(views)}, effects);
    std::vector<RequestView> ordered;
    for (const std::uint32_t i : answered.decision().value->positions)
      ordered.push_back(answered.question().waiting[i]);
    Record made = record(answered);
    made.rank = rank.up.rank;
    made.value = static_cast<std::int64_t>(ordered.size());
    effects.add(std::move(made));
    return ordered;
  }

  /// Answers the pull of a rank if there is something to say: slices, or "decode alone".
  void answer_pull(RankEntry& rank, std::int64_t now_us, Effects& effects) {
    Desk& desk = desks.at(rank.up.rank.rank);
    if (!desk.pull) return;
    std::vector<RequestView> work = ordered_work(desk, rank, now_us, effects);
    RunChunks answer{rank.up.rank, *desk.pull, {}};
    desk.in_flight_ps = 0;
    if (!work.empty()) {
      const PackQuery query{rank.up.rank, std::max<std::int64_t>(1, rank.up.step_tokens_max)};
      const auto answered =
          decide(ChunkerQuestion{context(now_us, &rank), query, std::move(work)}, effects);
      const auto& decision = answered.decision();
      Record made = record(answered);
      made.rank = rank.up.rank;
      made.view_age_us = now_us - rank.as_of_us;
      if (decision.value) {
        made.value = fill(answer, *decision.value, answered.question().requests, desk, effects);
      }
      effects.add(std::move(made));
      if (!decision.value) {
        const std::int64_t due_us = again_us(decision.retry_at_us, options.retry_us, now_us);
        retry.at(std::max(due_us, now_us + options.retry_us), effects);
      }
    }
    if (answer.slices.empty() && rank.report.running == 0) return; // Answered when work arrives.
    desk.pull.reset();
    desk.answered_us = now_us;
    desk.answer = answer;
    counts.slices += static_cast<std::int64_t>(answer.slices.size());
    effects.send_rank(std::move(answer));
  }

  void answer_pulls(std::int64_t now_us, Effects& effects) {
    for (const auto& [id, desk] : desks) {
      if (RankEntry* rank = book.find(id); rank != nullptr) answer_pull(*rank, now_us, effects);
    }
  }

  /// What the set before held back is put to the one that is live now.
  template <class Event>
  void swap(const Event& event, std::int64_t now_us, Effects& effects) {
    const PolicyEpoch before = slots.epoch();
    slots.on(event, now_us, effects);
    if (slots.epoch() == before) return;
    refresh_budgets();
    answer_pulls(now_us, effects);
    dispatch(now_us, effects);
    send_load(now_us, effects);
  }

  /// Turns shares into slices; returns their tokens.
  std::int64_t fill(RunChunks& answer, const Slices& slices, const std::vector<RequestView>& work,
                    Desk& desk, Effects& effects) {
    std::int64_t tokens = 0;
    for (const Share& share : slices.shares) {
      const RequestView& request = work[share.candidate];
      answer.slices.push_back(
          {request.ref, request.done, share.tokens, share.tokens == request.remaining()});
      tokens += share.tokens;
      if (!std::exchange(entries.at(request.ref).started, true)) {
        effects.add(Milestone{request.ref, Phase::prefilling, answer.rank, request.total(), {}});
      }
      desk.in_flight_ps = add_saturated(desk.in_flight_ps,
                                        options.cost_model.marginal_ps(share.tokens, request.done));
    }
    return tokens;
  }

  // -- reports -----------------------------------------------------------------------------------

  void take_pull(const RankReport& report, RankEntry& rank, std::int64_t now_us, Effects& effects) {
    Desk& desk = desks.at(report.rank.rank);
    if (!desk.answer || desk.answer->step < report.step_next) desk.in_flight_ps = 0;
    desk.pull.reset();
    if (!report.wants_chunks) return;
    if (desk.answer && desk.answer->step == report.step_next) {
      effects.send_rank(RunChunks(*desk.answer)); // It was lost, or crossed this report.
      return;
    }
    desk.pull = report.step_next;
    answer_pull(rank, now_us, effects);
  }

  void rank_gone(RankRef rank, std::int64_t now_us, Effects& effects) {
    const std::vector<RequestRef> all = keys();
    for (const RequestRef& ref : all) {
      Entry& entry = entries.at(ref);
      if (entry.rank != rank || entry.where == Where::waiting) continue;
      if (entry.where == Where::assigning) {
        put_back(entry, "the rank is gone", now_us, effects);
        continue;
      }
      effects.send(Peer::driver,
                   Ended{ref, ErrorCode::rank_lost, true, "its prefill rank is gone"});
      erase(ref);
    }
    book.remove(rank);
    desks.erase(rank.rank);
  }

  // -- load --------------------------------------------------------------------------------------

  /// Tells the driver what changed: always ranks, queue and moves; work when it moved by a quarter
  /// of a step, so that not every step of every rank costs a message.
  void send_load(std::int64_t now_us, Effects& effects) {
    Load load = load_now(now_us);
    counts.waiting = load.waiting;
    const std::int64_t change = load.least_work_ps > sent_load.least_work_ps
                                    ? load.least_work_ps - sent_load.least_work_ps
                                    : sent_load.least_work_ps - load.least_work_ps;
    const bool same = load.waiting == sent_load.waiting && load.ranks == sent_load.ranks &&
                      change <= largest_budget_ps() / 4;
    if (same && moved.empty()) return;
    sent_load = load;
    load.moved = std::move(moved);
    moved.clear();
    effects.send(Peer::driver, std::move(load));
  }
};

PrefillStage::PrefillStage(const PrefillOptions& options, const PolicySet& set,
                           const PolicyRegistry& registry)
    : state_(std::make_unique<State>(options, set, registry)) {}

PrefillStage::~PrefillStage() = default;

const PrefillCounts& PrefillStage::counts() const noexcept { return state_->counts; }

std::int64_t PrefillStage::requests() const noexcept {
  return static_cast<std::int64_t>(state_->entries.size());
}

void PrefillStage::on(const Submit& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (s.entries.count(event.ref) != 0) {
    ++s.counts.stale_dropped;
    return;
  }
  const auto answered = static_cast<std::int64_t>(event.work.answered.size());
  if (event.work.prompt.empty() || event.work.new_tokens_max <= answered) {
    effects.send(Peer::driver, Ended{event.ref, ErrorCode::invalid_request, false,
                                     "a request needs a prompt and at least one new token"});
    return;
  }
  if (static_cast<std::int64_t>(s.waiting.size()) >= s.options.queue_max) {
    effects.send(Peer::driver, Ended{event.ref, ErrorCode::rejected, false,
                                     "the queue holds " + std::to_string(s.options.queue_max) +
                                         " requests already"});
    return;
  }
  Entry entry;
  entry.view = view_of(event);
  s.refresh_work(entry);
  if (s.never_fits(entry)) {
    effects.send(Peer::driver, Ended{event.ref, ErrorCode::never_fits, false, s.why_never(entry)});
    return;
  }
  s.admit(Submit(event), entry.view, now_us, effects);
  s.dispatch(now_us, effects);
  s.send_load(now_us, effects);
}

void PrefillStage::on(const AnswersExpected& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  for (const RequestRef& ref : s.waiting) {
    RequestView& view = s.entries.at(ref).view;
    if (AnswerLengths::class_of(view.new_tokens_max) != event.length_class) continue;
    view.claim.expected_p50 = event.expected_p50;
    view.claim.expected_p90 = event.expected_p90;
  }
  s.dispatch(now_us, effects);
  s.send_load(now_us, effects);
}

void PrefillStage::on(const Cancel& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  const auto found = s.entries.find(event.ref);
  if (found == s.entries.end()) return; // It went on to the balancer, or ended.
  if (found->second.where != Where::waiting) {
    effects.send_rank(Release{event.ref, found->second.rank, event.reason});
  }
  s.remove(event.ref, now_us, effects);
  s.dispatch(now_us, effects);
  s.send_load(now_us, effects);
}

void PrefillStage::on(const Assigned& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  const auto found = s.entries.find(event.ref);
  RankEntry* rank = s.book.current(event.rank);
  const bool here = found != s.entries.end() && found->second.rank == event.rank;
  if (rank == nullptr || !here || found->second.where != Where::assigning) {
    ++s.counts.stale_dropped;
    // A yes to an Assign that was repeated or is no longer meant: the room must not stay taken.
    if (rank != nullptr && !here)
      effects.send_rank(Release{event.ref, event.rank, ErrorCode::stale});
    return;
  }
  Entry& entry = found->second;
  entry.where = Where::assigned;
  entry.submit.work = Work{};
  s.assigning.erase(entry.serial);
  effects.add(Milestone{event.ref, Phase::waits_for_step, event.rank, 0, {}});
  if (const auto promise = rank->promises.find(event.ref); promise != rank->promises.end()) {
    promise->second.room_confirmed = true;
    promise->second.run_confirmed = true;
  }
  ++s.counts.routed;
  s.keep_renewing(now_us, effects);
  s.moved.push_back({event.ref, event.rank, 0});
  s.answer_pull(*rank, now_us, effects);
  s.send_load(now_us, effects);
}

void PrefillStage::on(const Refused& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  const auto found = s.entries.find(event.ref);
  if (found == s.entries.end() || found->second.rank != event.rank ||
      found->second.where != Where::assigning) {
    ++s.counts.stale_dropped;
    return;
  }
  if (RankEntry* rank = s.book.current(event.rank)) rank->refused = true;
  s.retry.at(now_us + s.options.retry_us, effects);
  s.refused(found->second, now_us, effects);
  s.dispatch(now_us, effects);
  s.send_load(now_us, effects);
}

void PrefillStage::on(const RankReport& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (!s.book.take(event, now_us)) {
    ++s.counts.stale_dropped;
    return;
  }
  RankEntry& rank = *s.book.current(event.rank);
  if (prefills(rank.up.role)) {
    s.take_progress(event, s.moved);
    s.take_pull(event, rank, now_us, effects);
    s.dispatch(now_us, effects);
  }
  s.send_load(now_us, effects);
}

void PrefillStage::on(const RankUp& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (const RankEntry* old = s.book.find(event.rank.rank);
      old != nullptr && old->up.rank.incarnation < event.rank.incarnation) {
    s.rank_gone(old->up.rank, now_us, effects);
  }
  if (!s.book.add(event, now_us)) {
    ++s.counts.stale_dropped;
    return;
  }
  s.desks[event.rank.rank] = {};
  s.refresh_budgets();
  s.end_never_fitting(now_us, effects);
  s.dispatch(now_us, effects);
  s.send_load(now_us, effects);
}

void PrefillStage::on(const RankDown& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (const RankEntry* rank = s.book.current(event.rank)) {
    const RankUp up = rank->up;
    s.rank_gone(event.rank, now_us, effects);
    if (event.comes_back) s.book.expect_back(up);
  } else if (event.comes_back || !s.book.give_up(event.rank.rank)) {
    ++s.counts.stale_dropped;
    return;
  }
  s.end_never_fitting(now_us, effects);
  s.dispatch(now_us, effects);
  s.send_load(now_us, effects);
}

void PrefillStage::on(const SwapPrepare& event, std::int64_t now_us, Effects& effects) {
  state_->swap(event, now_us, effects);
}

void PrefillStage::on(const SwapCommit& event, std::int64_t now_us, Effects& effects) {
  state_->swap(event, now_us, effects);
}

void PrefillStage::on(const SwapAbort& event, std::int64_t /*now_us*/, Effects& /*effects*/) {
  state_->slots.on(event);
}

void PrefillStage::on(const Timer& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (event.kind == TimerKind::swap) return s.slots.on(event, now_us);
  if (event.kind == TimerKind::renew) return s.renew_all(now_us, effects);
  if (event.kind != TimerKind::retry) return;
  if (event.key == 0) {
    if (!s.retry.fires(now_us)) return;
    s.book.forget_refusals();
    if (const auto due_us = s.pause_ends_us(now_us)) s.retry.at(*due_us, effects);
    s.answer_pulls(now_us, effects);
  } else {
    const auto found = s.assigning.find(event.key);
    if (found == s.assigning.end()) return;
    Entry& entry = s.entries.at(found->second);
    if (entry.sent < s.options.attempts_max) {
      s.send_assign(entry, now_us, effects);
      return;
    }
    // Silence. A new attempt carries a new reference, so a late yes cannot be taken for its answer.
    const RequestRef ref = entry.view.ref;
    effects.send_rank(Release{ref, entry.rank, ErrorCode::rank_lost});
    effects.send(Peer::driver,
                 Ended{ref, ErrorCode::rank_lost, true, "its prefill rank does not answer"});
    s.erase(ref);
  }
  s.dispatch(now_us, effects);
  s.send_load(now_us, effects);
}

} // namespace troupe::sched
