#include "schedulers/stage/driver_stage.hpp"

#include "schedulers/core/rng.hpp"
#include "schedulers/model/answer_lengths.hpp"
#include "schedulers/stage/slot_pack.hpp"
#include "schedulers/stage/views.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace troupe::sched {
namespace {

/// What the driver last saw of a request, in order.
enum class Where : std::uint8_t {
  queued,     ///< Submitted; no rank yet.
  prefilling, ///< Routed to a prefill rank.
  moving,     ///< First token seen; on its way to a decode rank, or waiting for room there.
  decoding,   ///< Tokens come from a rank that decodes.
};

struct Entry {
  RequestRef ref;
  Submit submit;            ///< With the token log in work.answered; resubmitted after a loss.
  std::uint32_t losses = 0; ///< Attempts that were lost by our fault; preemptions are none.
  Where where = Where::queued;
  RankRef rank; ///< Last one seen.
  std::int64_t done = 0;
  std::int64_t progress_us = 0; ///< Last token, routing or chunk.
  std::int64_t reported_us = 0; ///< Last Stuck report of this silence; 0 = none.
  std::int64_t first_token_us = 0;
  std::map<std::int64_t, TokenRow> early; ///< Overtook an earlier token; by index.
  std::int64_t gap_since_us = 0;          ///< With `early`.
};

/// A token of a request in its current attempt.
struct CurrentRow {
  Entry* entry = nullptr;
  const TokenRow* token = nullptr;
};

constexpr std::size_t kEarlyMax = 4096; ///< Tokens that may overtake a missing one.

} // namespace

struct DriverStage::State {
  DriverOptions options;
  SlotDesk<DriverSlots> slots;
  Rng rng;
  DriverCounts counts;
  std::map<RequestId, Entry> live;
  std::map<RankId, RankUp> ranks;
  std::map<RankId, Incarnation> dead; ///< Newest life of each rank that ended.
  std::string no_rank;                ///< Why nothing can run any more; "" while it can.
  std::map<RankId, std::int64_t> rank_progress_us; ///< Last token or chunk of a rank.
  AnswerLengths lengths;
  std::map<std::uint32_t, AnswersExpected> told; ///< By class: what the chunker knows.
  LoadView load;
  std::int64_t progress_us = 0; ///< Last sign of life of the whole pipeline.
  bool watching = false;

  State(const DriverOptions& given, const PolicySet& set, const PolicyRegistry& registry)
      : options(given), slots({StageKind::driver, {}}, set, registry),
        rng(draw(given.seed, 0, Purpose::policy)) {}

  // -- helpers -----------------------------------------------------------------------------------

  QuestionContext context(std::int64_t now_us) {
    QuestionContext ctx;
    ctx.now_us = now_us;
    ctx.seed = rng.bits();
    ctx.cost_model = options.cost_model;
    const PrefillChunker& chunker = slots->of<ChunkerQuestion>().policy();
    for (const auto& [id, rank] : ranks) {
      if (!prefills(rank.role)) continue;
      const std::int64_t budget = chunker.step_budget_ps(options.cost_model, rank.step_tokens_max);
      ctx.step_budget_ps = std::max(ctx.step_budget_ps, budget);
    }
    return ctx;
  }

  static std::int64_t answered(const Entry& entry) {
    return static_cast<std::int64_t>(entry.submit.work.answered.size());
  }

  Entry* current(const RequestRef& ref) {
    const auto found = live.find(ref.request);
    if (found != live.end() && found->second.ref == ref) return &found->second;
    ++counts.stale_dropped;
    return nullptr;
  }

  /// Whether a message of that life still counts.
  bool lives(RankRef rank) {
    const auto died = dead.find(rank.rank);
    if (died == dead.end() || died->second < rank.incarnation) return true;
    ++counts.stale_dropped;
    return false;
  }

  void moved(Entry& entry, std::int64_t now_us) {
    entry.progress_us = now_us;
    entry.reported_us = 0;
  }

  void watch(std::int64_t now_us, Effects& effects) {
    if (watching || live.empty()) return;
    watching = true;
    effects.timer(TimerKind::watch, 0, now_us + options.watch_every_us);
  }

  /// A whole answer: requests that still wait are expected to get as long.
  void learn(std::int64_t new_tokens_max, std::int64_t output_tokens, Effects& effects) {
    lengths.add(new_tokens_max, output_tokens);
    const std::uint32_t length_class = AnswerLengths::class_of(new_tokens_max);
    const AnswersExpected now{length_class, lengths.quantile(new_tokens_max, 500),
                              lengths.quantile(new_tokens_max, options.expected_permille)};
    AnswersExpected& before = told[length_class];
    if (now.expected_p50 == before.expected_p50 && now.expected_p90 == before.expected_p90) return;
    before = now;
    effects.send(Peer::chunker, now);
  }

  // -- endings -----------------------------------------------------------------------------------

  static void cancel(const Entry& entry, ErrorCode reason, Effects& effects) {
    effects.send(Peer::chunker, Cancel{entry.ref, reason});
    effects.send(Peer::balancer, Cancel{entry.ref, reason});
  }

  /// The one place where a request ends.
  void finish(const RequestId request, ErrorCode code, EndReason end, std::string detail,
              std::int64_t now_us, Effects& effects) {
    const auto found = live.find(request);
    const Entry& entry = found->second;
    if (code == ErrorCode::ok) {
      learn(entry.submit.work.new_tokens_max, answered(entry), effects);
      ++counts.finished;
    } else if (code == ErrorCode::cancelled) {
      ++counts.cancelled;
    } else {
      ++counts.failed;
    }
    effects.add(Finish{request, code, end, std::move(detail), entry.losses + 1,
                       entry.submit.arrival_us, entry.first_token_us, now_us, answered(entry),
                       entry.submit.claim.preemptions});
    effects.add(
        Milestone{entry.ref, Phase::ended, entry.rank, static_cast<std::int64_t>(code), {}});
    live.erase(found);
    counts.live = static_cast<std::int64_t>(live.size());
  }

  /// The attempt is lost by our fault: the next one goes on from the token log.
  void lose(Entry& entry, ErrorCode code, const std::string& why, std::int64_t now_us,
            Effects& effects) {
    cancel(entry, code, effects);
    if (entry.losses + 1 >= options.attempts_max) {
      const ErrorCode last = code == ErrorCode::no_progress ? code : ErrorCode::attempts_exhausted;
      finish(entry.ref.request, last, EndReason::none,
             why + "; that was attempt " + std::to_string(entry.losses + 1) + " of " +
                 std::to_string(options.attempts_max),
             now_us, effects);
      return;
    }
    ++entry.losses;
    ++counts.retried;
    start_again(entry, why, now_us, effects);
  }

  /// Its room went to an earlier request. That is no lost attempt, and it has a bound of its own:
  /// once reached, the request is placed so that it need not be preempted again.
  void preempt(Entry& entry, const std::string& why, std::int64_t now_us, Effects& effects) {
    cancel(entry, ErrorCode::preempted, effects);
    ++counts.preempted;
    ++entry.submit.claim.preemptions;
    start_again(entry, "preempted: " + why, now_us, effects);
  }

  void start_again(Entry& entry, const std::string& why, std::int64_t now_us, Effects& effects) {
    entry.ref.attempt = next(entry.ref.attempt);
    entry.submit.ref = entry.ref;
    entry.where = Where::queued;
    entry.rank = {};
    entry.done = 0;
    entry.early.clear();
    moved(entry, now_us);
    submit(entry, why, effects);
  }

  /// Into the pipeline, with what is known now of how long its answer gets.
  void submit(Entry& entry, const std::string& why, Effects& effects) const {
    Claim& claim = entry.submit.claim;
    const std::int64_t limit = entry.submit.work.new_tokens_max;
    claim.reservation = options.reservation;
    if (claim.reservation != Reservation::worst && claim.preemptions >= options.preemptions_max) {
      claim.reservation = Reservation::shielded;
    }
    claim.expected_p50 = lengths.quantile(limit, 500);
    claim.expected_p90 = lengths.quantile(limit, options.expected_permille);
    effects.add(Milestone{entry.ref, Phase::waits_for_rank, {}, 0, why});
    effects.send(Peer::chunker, entry.submit);
  }

  // -- arrival -----------------------------------------------------------------------------------

  void refuse(const Arrive& event, ErrorCode code, std::string detail, std::int64_t now_us,
              Effects& effects) {
    ++counts.rejected;
    Finish made;
    made.request = event.request;
    made.code = code;
    made.detail = std::move(detail);
    made.arrival_us = now_us;
    made.end_us = now_us;
    effects.add(std::move(made));
  }

  bool admit(const Submit& submit, std::int64_t now_us, Effects& effects) {
    AdmissionQuestion question{context(now_us), view_of(submit), load};
    question.request.work_ps = options.cost_model.marginal_ps(question.request.prompt, 0);
    const auto answered = slots.decide(std::move(question), counts.invalid_decisions, effects);
    const bool admitted = *answered.decision().value == Admission::admit;
    Record made = slots->of<AdmissionQuestion>().record(answered);
    made.ref = submit.ref;
    made.value = admitted ? 1 : 0;
    made.view_age_us = load.as_of_us == 0 ? 0 : now_us - load.as_of_us;
    effects.add(std::move(made));
    return admitted;
  }

  // -- tokens ------------------------------------------------------------------------------------

  /// Takes one row in; rows that are next in line are appended to `emit`.
  void take(Entry& entry, const TokenRow& row, std::int64_t now_us, Emit& emit) {
    const std::int64_t next_index = answered(entry);
    if (row.index < next_index) {
      ++counts.stale_dropped; // A repeat: the client has it already.
      return;
    }
    if (row.index > next_index) {
      if (entry.early.empty()) entry.gap_since_us = now_us;
      entry.early.emplace(row.index, row);
      return;
    }
    append(entry, row, now_us, emit);
    while (!entry.early.empty() && entry.early.begin()->first == answered(entry)) {
      append(entry, TokenRow(entry.early.begin()->second), now_us, emit);
      entry.early.erase(entry.early.begin());
      entry.gap_since_us = now_us;
    }
  }

  static void append(Entry& entry, const TokenRow& row, std::int64_t now_us, Emit& emit) {
    if (!emit.rows.empty() && emit.rows.back().end != EndReason::none) return;
    if (answered(entry) >= entry.submit.work.new_tokens_max) return;
    if (entry.first_token_us == 0) entry.first_token_us = now_us;
    entry.submit.work.answered.push_back(row.token);
    emit.rows.push_back(row);
  }

  /// @param rows  tokens of one request, in the order of the message
  void take_rows(RankRef rank, Where where, std::span<const CurrentRow> rows, std::int64_t now_us,
                 Effects& effects) {
    Entry& entry = *rows.front().entry;
    Emit emit{entry.ref.request, {}};
    for (const CurrentRow& row : rows)
      take(entry, *row.token, now_us, emit);
    if (emit.rows.empty() && entry.early.size() <= kEarlyMax) return;
    moved(entry, now_us);
    entry.rank = rank;
    entry.where = where;
    const EndReason end = emit.rows.empty() ? EndReason::none : emit.rows.back().end;
    if (!emit.rows.empty()) effects.add(std::move(emit));
    const bool full = answered(entry) >= entry.submit.work.new_tokens_max;
    if (end != EndReason::none || full) {
      finish(entry.ref.request, ErrorCode::ok, end == EndReason::none ? EndReason::length : end, {},
             now_us, effects);
    } else if (entry.early.size() > kEarlyMax) {
      lose(entry, ErrorCode::no_progress, "a token was lost on the way", now_us, effects);
    }
  }

  // -- the watch ---------------------------------------------------------------------------------

  std::string rank_name(RankRef rank) const {
    const auto found = ranks.find(rank.rank);
    return found == ranks.end() || found->second.name.empty()
               ? "rank " + std::to_string(raw(rank.rank))
               : found->second.name;
  }

  std::string waits_for(const Entry& entry) const {
    switch (entry.where) {
    case Where::queued:
      return load.ranks == 0
                 ? "the prefill queue: no prefill rank is up"
                 : "the prefill queue: " + std::to_string(load.waiting) +
                       " requests wait for room on " + std::to_string(load.ranks) + " ranks";
    case Where::prefilling:
      return "prefill on " + rank_name(entry.rank) + ": " + std::to_string(entry.done) + " of " +
             std::to_string(entry.submit.work.prefill_tokens()) + " tokens done";
    case Where::moving:
      return "handoff from " + rank_name(entry.rank) + ", or room on a decode rank";
    case Where::decoding:
      return "decode on " + rank_name(entry.rank) + ": " + std::to_string(answered(entry)) +
             " tokens so far";
    }
    return "unknown";
  }

  /// Since when nothing happened that could have helped this request. One that waits for others
  /// (queue, room, its turn on a busy rank) is not lost while they go on.
  std::int64_t silent_since_us(const Entry& entry) const {
    if (entry.where == Where::decoding) return entry.progress_us;
    if (entry.where == Where::prefilling) {
      const auto rank = rank_progress_us.find(entry.rank.rank);
      return std::max(entry.progress_us, rank == rank_progress_us.end() ? 0 : rank->second);
    }
    return std::max(entry.progress_us, progress_us);
  }

  void look_at(Entry& entry, std::int64_t now_us, Effects& effects) {
    const std::int64_t silent_us = now_us - entry.progress_us;
    if (!entry.early.empty() && now_us - entry.gap_since_us >= options.gap_wait_us) {
      lose(entry, ErrorCode::no_progress, "a token was lost on the way", now_us, effects);
      return;
    }
    if (now_us - silent_since_us(entry) >= options.no_progress_us) {
      lose(entry, ErrorCode::no_progress,
           "nothing happened for " + std::to_string(silent_us) + " us; it waited for " +
               waits_for(entry),
           now_us, effects);
      return;
    }
    if (silent_us >= options.stuck_after_us &&
        now_us - std::max(entry.reported_us, entry.progress_us) >= options.stuck_after_us) {
      entry.reported_us = now_us;
      effects.add(Stuck{entry.ref.request, waits_for(entry), silent_us});
    }
  }
};

DriverStage::DriverStage(const DriverOptions& options, const PolicySet& set,
                         const PolicyRegistry& registry)
    : state_(std::make_unique<State>(options, set, registry)) {}

DriverStage::~DriverStage() = default;

const DriverCounts& DriverStage::counts() const noexcept { return state_->counts; }

void DriverStage::on(const Arrive& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (s.live.count(event.request) != 0) {
    ++s.counts.stale_dropped; // Its one ending is still to come.
    return;
  }
  if (event.work.prompt.empty() || event.work.new_tokens_max < 1 ||
      static_cast<std::int64_t>(event.work.answered.size()) >= event.work.new_tokens_max) {
    s.refuse(event, ErrorCode::invalid_request,
             "a request needs at least one prompt token and room for one new token", now_us,
             effects);
    return;
  }
  if (!s.no_rank.empty()) {
    s.refuse(event, ErrorCode::no_rank, s.no_rank, now_us, effects);
    return;
  }
  if (static_cast<std::int64_t>(s.live.size()) >= s.options.requests_max) {
    s.refuse(event, ErrorCode::rejected,
             "limits.requests_max = " + std::to_string(s.options.requests_max) +
                 " requests are in the system already",
             now_us, effects);
    return;
  }
  Entry entry;
  entry.ref = {event.request, Attempt{1}};
  entry.submit = Submit{
      entry.ref, event.tenant, event.session_hash, event.priority, now_us, 0, event.work, {}};
  if (s.options.request_timeout_us > 0) {
    entry.submit.deadline_us = now_us + s.options.request_timeout_us;
  }
  if (!s.admit(entry.submit, now_us, effects)) {
    s.refuse(event, ErrorCode::rejected,
             "admission expects the first token after the request's deadline", now_us, effects);
    return;
  }
  entry.progress_us = now_us;
  if (entry.submit.deadline_us > 0) {
    effects.timer(TimerKind::deadline, raw(event.request), entry.submit.deadline_us);
  }
  s.submit(entry, {}, effects);
  s.live.emplace(event.request, std::move(entry));
  ++s.counts.accepted;
  s.counts.live = static_cast<std::int64_t>(s.live.size());
  s.watch(now_us, effects);
}

void DriverStage::on(const Tokens& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (!s.lives(event.rank)) return;
  s.progress_us = now_us;
  s.rank_progress_us[event.rank.rank] = now_us;
  const auto rank = s.ranks.find(event.rank.rank);
  const bool prefill_only = rank != s.ranks.end() && !decodes(rank->second.role);
  std::vector<CurrentRow> rows;
  rows.reserve(event.rows.size());
  for (const TokenRow& row : event.rows) {
    if (Entry* entry = s.current(row.ref)) rows.push_back({entry, &row});
  }
  const auto earlier = [](const CurrentRow& a, const CurrentRow& b) {
    return a.token->ref.request < b.token->ref.request;
  };
  std::stable_sort(rows.begin(), rows.end(), earlier);
  effects.expect(rows.size());
  for (auto first = rows.begin(); first != rows.end();) {
    const auto end = std::upper_bound(first, rows.end(), *first, earlier);
    s.take_rows(event.rank, prefill_only ? Where::moving : Where::decoding, {first, end}, now_us,
                effects);
    first = end;
  }
}

void DriverStage::on(const Ended& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (event.rank != RankRef{} && !s.lives(event.rank)) return;
  Entry* entry = s.current(event.ref);
  if (entry == nullptr) return;
  if (event.code == ErrorCode::preempted) {
    s.preempt(*entry, event.detail, now_us, effects);
    return;
  }
  if (event.retryable) {
    s.lose(*entry, event.code,
           std::string(error_name(event.code)) +
               (event.detail.empty() ? std::string() : ": " + event.detail),
           now_us, effects);
    return;
  }
  s.cancel(*entry, event.code, effects);
  s.finish(event.ref.request, event.code, EndReason::none, event.detail, now_us, effects);
}

void DriverStage::on(const Load& event, std::int64_t now_us, Effects& /*effects*/) {
  State& s = *state_;
  s.progress_us = now_us;
  s.load = {event.waiting, event.waiting_tokens, event.least_work_ps, event.ranks, now_us};
  for (const Standing& standing : event.moved) {
    s.rank_progress_us[standing.rank.rank] = now_us;
    const auto found = s.live.find(standing.ref.request);
    if (found == s.live.end() || found->second.ref != standing.ref) continue; // Ended meanwhile.
    Entry& entry = found->second;
    if (entry.where != Where::queued && entry.where != Where::prefilling) continue;
    entry.where = Where::prefilling;
    entry.rank = standing.rank;
    entry.done = standing.done;
    s.moved(entry, now_us);
  }
}

void DriverStage::on(const StopSeen& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  const auto found = s.live.find(event.request);
  if (found == s.live.end()) return; // It ended by itself meanwhile.
  s.cancel(found->second, ErrorCode::ok, effects);
  s.finish(event.request, ErrorCode::ok, EndReason::none, {}, now_us, effects);
}

void DriverStage::on(const Abandon& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  const auto found = s.live.find(event.request);
  if (found == s.live.end()) return; // It ended by itself meanwhile.
  s.cancel(found->second, event.reason, effects);
  s.finish(event.request, event.reason, EndReason::none, "stopped on request", now_us, effects);
}

void DriverStage::on(const RankUp& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  s.progress_us = now_us;
  const auto found = s.ranks.find(event.rank.rank);
  if (found != s.ranks.end() && found->second.rank.incarnation > event.rank.incarnation) {
    ++s.counts.stale_dropped;
    return;
  }
  if (!s.lives(event.rank)) return;
  s.ranks[event.rank.rank] = event;
  effects.add(RankChange{event.rank, event.role, event.name, true});
}

void DriverStage::on(const RankDown& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (!s.lives(event.rank)) return;
  s.dead[event.rank.rank] = event.rank.incarnation;
  const auto known = s.ranks.find(event.rank.rank);
  const Role role = known == s.ranks.end() ? Role::both : known->second.role;
  effects.add(RankChange{event.rank, role, s.rank_name(event.rank), false});
  // Chunker and balancer end what they know the rank held. A request whose tokens came from there
  // is lost for certain: nobody else has its next one.
  std::vector<RequestId> lost;
  for (const auto& [request, entry] : s.live) {
    if (entry.rank == event.rank && entry.where == Where::decoding) lost.push_back(request);
  }
  for (const RequestId request : lost) {
    s.lose(s.live.at(request), ErrorCode::rank_lost, s.rank_name(event.rank) + " is gone", now_us,
           effects);
  }
}

void DriverStage::on(const NoRankLeft& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  s.no_rank = event.detail;
  while (!s.live.empty()) {
    const auto& [request, entry] = *s.live.begin();
    s.cancel(entry, ErrorCode::no_rank, effects);
    s.finish(request, ErrorCode::no_rank, EndReason::none, event.detail, now_us, effects);
  }
}

void DriverStage::on(const SwapPrepare& event, std::int64_t now_us, Effects& effects) {
  state_->slots.on(event, now_us, effects);
}

void DriverStage::on(const SwapCommit& event, std::int64_t now_us, Effects& effects) {
  state_->slots.on(event, now_us, effects);
}

void DriverStage::on(const SwapAbort& event, std::int64_t /*now_us*/, Effects& /*effects*/) {
  state_->slots.on(event);
}

void DriverStage::on(const Timer& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (event.kind == TimerKind::swap) return s.slots.on(event, now_us);
  if (event.kind == TimerKind::deadline) {
    const auto found = s.live.find(RequestId{event.key});
    if (found == s.live.end() || now_us < found->second.submit.deadline_us) return;
    std::string detail =
        "limits.request_timeout_s ran out; it waited for " + s.waits_for(found->second);
    s.cancel(found->second, ErrorCode::deadline, effects);
    s.finish(found->first, ErrorCode::deadline, EndReason::none, std::move(detail), now_us,
             effects);
    return;
  }
  if (event.kind != TimerKind::watch) return;
  s.watching = false;
  std::vector<RequestId> all;
  for (const auto& [request, entry] : s.live)
    all.push_back(request);
  for (const RequestId request : all)
    s.look_at(s.live.at(request), now_us, effects);
  s.watch(now_us, effects);
}

} // namespace troupe::sched
