// Every message between actors: the protocol of schedulers/stage/protocol.hpp made sendable, and
// the messages of a batch job. The same in one process and between processes.
//
// Fields are integers, strings and vectors of those: CAF 0.17.6 garbles or hangs on raw floats, so
// a float travels as its bits. The one type-id block is append-only.

#pragma once

#include "actors/caf_compat.hpp"
#include "schedulers/stage/effects.hpp"
#include "schedulers/stage/manager_stage.hpp"
#include "schedulers/stage/rank_stage.hpp"
#include "schedulers/stage/supervisor_stage.hpp"

#include <caf/type_id.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::actors {

// -- batch job: driver, store (input, journal, output), text worker
// --------------------------------

/// driver → store: deliver up to `count` more pending lines.
struct ReadLines {
  std::int64_t count = 0;
};

/// A pending line of the input.
struct JobLine {
  std::int64_t line = 0; ///< Names the line everywhere; ascending in input order.
  std::string custom_id;
  bool is_chat = false; ///< Else /v1/completions.
  std::string body;     ///< JSON text of the request.
  std::string refusal;  ///< Not empty: the line could not be read, and this is its error line.
};

/// store → driver: the lines asked for; `end` when none is left after them.
struct Lines {
  std::vector<JobLine> lines;
  bool end = false;
};

/// driver → text worker: parse, render and tokenise one line.
struct Render {
  JobLine line;
};

/// One request of a line, ready to run.
struct RenderedChoice {
  std::string tenant;
  std::int64_t priority = 0;
  sched::Work work;
  std::uint64_t session_hash = 0; ///< As in sched::Arrive.
  std::string custom_id;          ///< Of its line.
};

/// text worker → driver. A line that cannot run gets an Answer instead.
struct Rendered {
  std::int64_t line = 0;
  std::vector<RenderedChoice> choices;
};

/// driver → text worker: new tokens of one choice, in order.
struct Detokenise {
  RequestId request{};
  std::vector<sched::TokenRow> rows;
};

/// text worker → driver: a stop string ended the answer.
struct StopFound {
  RequestId request{};
};

/// driver → text worker: the request ended; `code` other than ok makes the line an error.
struct Complete {
  RequestId request{};
  ErrorCode code = ErrorCode::ok;
  sched::EndReason end = sched::EndReason::none;
  std::string detail;
};

/// driver → text worker: the line goes back to the input, nothing is written for it.
struct DropLine {
  std::int64_t line = 0;
};

/// text worker → driver: a line's one answer, as written. Passed on to the store.
struct Answer {
  std::int64_t line = 0;
  bool is_error = false; ///< Goes to the errors file.
  std::string text;      ///< The whole output line, without newline.
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
};

/// store → driver: these lines are durable.
struct Written {
  std::vector<std::int64_t> lines;
  std::int64_t succeeded = 0; ///< In the output file, of all runs.
  std::int64_t failed = 0;    ///< In the errors file, of all runs.
};

/// driver → store: nothing more comes. `finished` when every line is answered.
struct CloseJob {
  bool finished = false;
};

/// store → driver: the job cannot go on (disk full, input changed), or, with code ok, it is closed.
struct StoreState {
  ErrorCode code = ErrorCode::ok;
  std::string message;
};

/// main thread → driver: Ctrl-C once (1), twice or after stop_grace_s (2).
struct Interrupt {
  std::int32_t level = 1;
};

/// What the driver tells whoever waits for the job: every second, and once with `ended`.
struct JobState {
  std::int64_t succeeded = 0, failed = 0, running = 0, waiting = 0;
  std::int64_t run_done = 0; ///< Lines made durable in this run.
  std::int64_t prompt_tokens = 0, output_tokens = 0;
  bool ended = false;
  bool complete = false; ///< With ended: every line of the input is answered.
  ErrorCode code = ErrorCode::ok;
  std::string message;
};

/// text worker → whoever reads along: a piece of the answer as it comes.
struct Piece {
  std::string kind; ///< "reasoning", "content", "call", "arguments"
  std::string text;
};

// -- policy sets
// ---------------------------------------------------------------------------------------

/// One option of a policy on its way to another stage.
struct OptionRow {
  std::string key;
  std::int32_t type = 0;   ///< 0 boolean, 1 integer, 2 real number, 3 text.
  std::int64_t number = 0; ///< Boolean, integer, or the bits of the real number.
  std::string text;
  std::string where;
};

std::vector<OptionRow> option_rows(const OptionTable& table);
OptionTable option_table(const std::string& name, const std::vector<OptionRow>& rows);

// -- shell messages
// --------------------------------------------------------------------------------

/// Self-message of a rank: look for transport completions.
struct PollTransport {
  std::uint64_t round = 0;
};

/// The lane of a rank's engine to the rank: a piece of work is done.
struct LaneDone {
  std::uint64_t ticket = 0;
};

/// To the driver, from itself: tell the listener how it goes. To the store: write what waits.
struct Tick {
  std::int32_t unused = 0;
};

/// Self-message of a shell: timers may be due.
struct WakeUp {
  std::int64_t due_us = 0; ///< The clock time it was asked for.
};

/// First message of an actor once all peers are known.
struct Start {
  std::int32_t unused = 0;
};

/// Ends an actor after it has flushed what it holds.
struct Stop {
  std::int32_t unused = 0;
};

} // namespace troupe::actors

// -- inspection
// ------------------------------------------------------------------------------------

#define TROUPE_INSPECT(Type, ...)                                                                  \
  template <class Inspector>                                                                       \
  typename Inspector::result_type inspect(Inspector& f, Type& x) {                                 \
    return f(caf::meta::type_name(#Type), __VA_ARGS__);                                            \
  }

namespace troupe::actors {
TROUPE_INSPECT(OptionRow, x.key, x.type, x.number, x.text, x.where)
} // namespace troupe::actors

namespace troupe {
TROUPE_INSPECT(RequestRef, x.request, x.attempt)
TROUPE_INSPECT(RankRef, x.rank, x.incarnation)
TROUPE_INSPECT(Digest, x.high, x.low)

/// Options travel as rows; a real number as its bits.
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, OptionTable& x) {
  std::string name = x.name();
  std::vector<actors::OptionRow> rows = actors::option_rows(x);
  const auto load = [&]() -> caf::error {
    x = actors::option_table(name, rows);
    return caf::none;
  };
  return f(caf::meta::type_name("OptionTable"), name, rows, caf::meta::load_callback(load));
}
} // namespace troupe

namespace troupe::sched {
TROUPE_INSPECT(Sampling, x.temperature_bits, x.top_p_bits, x.top_k, x.seed, x.top_logprobs,
               x.new_tokens_min, x.ignore_eos)
TROUPE_INSPECT(Work, x.prompt, x.answered, x.stop_ids, x.new_tokens_max, x.sampling)
TROUPE_INSPECT(Claim, x.reservation, x.expected_p50, x.expected_p90, x.preemptions)
TROUPE_INSPECT(Submit, x.ref, x.tenant, x.session_hash, x.priority, x.arrival_us, x.deadline_us,
               x.work, x.claim)
TROUPE_INSPECT(AnswersExpected, x.length_class, x.expected_p50, x.expected_p90)
TROUPE_INSPECT(Cancel, x.ref, x.reason)
TROUPE_INSPECT(Ended, x.ref, x.code, x.retryable, x.detail, x.rank)
TROUPE_INSPECT(TokenRow, x.ref, x.index, x.token, x.logprob_bits, x.top_tokens, x.top_logprob_bits,
               x.end)
TROUPE_INSPECT(Tokens, x.rank, x.step, x.rows)
TROUPE_INSPECT(Standing, x.ref, x.rank, x.done)
TROUPE_INSPECT(Load, x.waiting, x.waiting_tokens, x.least_work_ps, x.ranks, x.moved)
TROUPE_INSPECT(Assign, x.ref, x.rank, x.work, x.arrival_us, x.claim, x.lease_us, x.session_hash)
TROUPE_INSPECT(Assigned, x.ref, x.rank)
TROUPE_INSPECT(Refused, x.ref, x.rank, x.handoff, x.reason)
TROUPE_INSPECT(Slice, x.ref, x.first, x.count, x.last)
TROUPE_INSPECT(RunChunks, x.rank, x.step, x.slices)
TROUPE_INSPECT(Progress, x.ref, x.done, x.total, x.planned)
TROUPE_INSPECT(RankReport, x.rank, x.role, x.seq, x.step_next, x.wants_chunks, x.draining,
               x.kv_blocks_free, x.kv_blocks_reserved, x.kv_blocks_total, x.slots_free,
               x.slots_reserved, x.slots_total, x.running, x.context_tokens, x.tokens_to_come,
               x.last_step_tokens, x.last_step_us, x.progress, x.freed)
TROUPE_INSPECT(PrefillDone, x.ref, x.rank, x.positions, x.positions_max, x.answered,
               x.new_tokens_max, x.arrival_us, x.lease_us, x.in_place, x.manifest, x.claim,
               x.session_hash)
TROUPE_INSPECT(Reserve, x.ref, x.rank, x.handoff, x.positions_max, x.lease_us, x.answered,
               x.new_tokens_max, x.arrival_us, x.claim)
TROUPE_INSPECT(Reserved, x.ref, x.rank, x.handoff)
TROUPE_INSPECT(Renew, x.ref, x.rank, x.handoff, x.lease_us)
TROUPE_INSPECT(Pull, x.ref, x.rank, x.handoff, x.source, x.positions, x.manifest)
TROUPE_INSPECT(TransferDone, x.ref, x.rank, x.handoff, x.code, x.digest, x.detail)
TROUPE_INSPECT(Adopt, x.ref, x.rank, x.handoff, x.digest)
TROUPE_INSPECT(Adopted, x.ref, x.rank, x.handoff)
TROUPE_INSPECT(Release, x.ref, x.rank, x.reason)
TROUPE_INSPECT(RankUp, x.rank, x.role, x.name, x.kv_blocks, x.block_tokens, x.slots,
               x.step_tokens_max, x.context_max)
TROUPE_INSPECT(RankDown, x.rank, x.reason, x.comes_back)
TROUPE_INSPECT(NoRankLeft, x.role, x.detail)
TROUPE_INSPECT(RankStarted, x.rank, x.code, x.detail)
TROUPE_INSPECT(Timer, x.kind, x.key)
TROUPE_INSPECT(StepRow, x.ref, x.status, x.length, x.drew, x.token)
TROUPE_INSPECT(StepDone, x.step, x.code, x.compute_us, x.rows, x.expert_epoch, x.expert_counts,
               x.idle_us)
TROUPE_INSPECT(Exported, x.ref, x.code, x.manifest)
TROUPE_INSPECT(Imported, x.ref, x.handoff, x.code, x.digest, x.detail, x.positions, x.answered,
               x.new_tokens_max)
TROUPE_INSPECT(StageRef, x.kind, x.rank)
TROUPE_INSPECT(PolicySpec, x.policy, x.options)
TROUPE_INSPECT(LibrarySpec, x.path, x.digest, x.lane, x.decide_us, x.create_ms)
TROUPE_INSPECT(ProbationSpec, x.window_us, x.requests_min, x.ttft_p95_permille, x.tpot_p95_permille,
               x.goodput_permille, x.preemptions_permille)
TROUPE_INSPECT(PolicySet, x.epoch, x.name, x.text, x.file, x.kinds, x.libraries, x.probation,
               x.shadow, x.canary, x.canary_permille)
TROUPE_INSPECT(SwapPrepare, x.set, x.drop_after_us, x.is_live)
TROUPE_INSPECT(Prepared, x.stage, x.epoch, x.ok, x.reason)
TROUPE_INSPECT(SwapCommit, x.epoch)
TROUPE_INSPECT(Committed, x.stage, x.epoch)
TROUPE_INSPECT(SwapAbort, x.epoch)
TROUPE_INSPECT(SetRequest, x.stage, x.epoch)
TROUPE_INSPECT(PolicyFault, x.stage, x.epoch, x.kind, x.policy, x.what)
TROUPE_INSPECT(SwapAsked, x.question, x.set, x.cause, x.reason)
TROUPE_INSPECT(RollbackAsked, x.question, x.reason)
TROUPE_INSPECT(PromoteAsked, x.question)
TROUPE_INSPECT(SwapEnded, x.question, x.ok, x.epoch, x.name, x.cause, x.reason)
TROUPE_INSPECT(RequestEnded, x.ok, x.ttft_us, x.tpot_us, x.preemptions, x.live)
TROUPE_INSPECT(ExpertTopology, x.experts, x.slots, x.gpus, x.groups, x.nodes)
TROUPE_INSPECT(ExpertLayerLoads, x.layer, x.counts)
TROUPE_INSPECT(ExpertLoads, x.rank, x.epoch, x.first_step, x.steps, x.layers)
TROUPE_INSPECT(ExpertPlan, x.rank, x.epoch, x.topology, x.maps)
} // namespace troupe::sched

namespace troupe::actors {
TROUPE_INSPECT(ReadLines, x.count)
TROUPE_INSPECT(JobLine, x.line, x.custom_id, x.is_chat, x.body, x.refusal)
TROUPE_INSPECT(Lines, x.lines, x.end)
TROUPE_INSPECT(Render, x.line)
TROUPE_INSPECT(RenderedChoice, x.tenant, x.priority, x.work, x.session_hash, x.custom_id)
TROUPE_INSPECT(Rendered, x.line, x.choices)
TROUPE_INSPECT(Detokenise, x.request, x.rows)
TROUPE_INSPECT(StopFound, x.request)
TROUPE_INSPECT(Complete, x.request, x.code, x.end, x.detail)
TROUPE_INSPECT(DropLine, x.line)
TROUPE_INSPECT(Answer, x.line, x.is_error, x.text, x.prompt_tokens, x.output_tokens)
TROUPE_INSPECT(Written, x.lines, x.succeeded, x.failed)
TROUPE_INSPECT(CloseJob, x.finished)
TROUPE_INSPECT(StoreState, x.code, x.message)
TROUPE_INSPECT(Interrupt, x.level)
TROUPE_INSPECT(JobState, x.succeeded, x.failed, x.running, x.waiting, x.run_done, x.prompt_tokens,
               x.output_tokens, x.ended, x.complete, x.code, x.message)
TROUPE_INSPECT(Piece, x.kind, x.text)
TROUPE_INSPECT(PollTransport, x.round)
TROUPE_INSPECT(LaneDone, x.ticket)
TROUPE_INSPECT(Tick, x.unused)
TROUPE_INSPECT(WakeUp, x.due_us)
TROUPE_INSPECT(Start, x.unused)
TROUPE_INSPECT(Stop, x.unused)
} // namespace troupe::actors

#undef TROUPE_INSPECT

CAF_BEGIN_TYPE_ID_BLOCK(troupe, first_custom_type_id)
CAF_ADD_TYPE_ID(troupe, (troupe::RequestId))
CAF_ADD_TYPE_ID(troupe, (troupe::RequestRef))
CAF_ADD_TYPE_ID(troupe, (troupe::RankRef))
CAF_ADD_TYPE_ID(troupe, (troupe::Digest))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Sampling))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Work))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Submit))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Cancel))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Ended))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::TokenRow))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Tokens))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Standing))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Load))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Assign))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Assigned))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Refused))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Slice))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::RunChunks))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Progress))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::RankReport))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::PrefillDone))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Reserve))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Reserved))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Renew))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Pull))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::TransferDone))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Adopt))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Adopted))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Release))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::RankUp))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::RankDown))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Timer))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::StepRow))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::StepDone))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Exported))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Imported))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::ReadLines))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::JobLine))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::Lines))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::Render))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::RenderedChoice))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::Rendered))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::Detokenise))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::StopFound))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::Complete))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::DropLine))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::Answer))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::Written))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::CloseJob))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::StoreState))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::Interrupt))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::JobState))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::Piece))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::PollTransport))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::Tick))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::Start))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::Stop))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Claim))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::WakeUp))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::NoRankLeft))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::RankStarted))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::AnswersExpected))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::OptionRow))
CAF_ADD_TYPE_ID(troupe, (troupe::OptionTable))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::StageRef))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::PolicySpec))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::LibrarySpec))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::ProbationSpec))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::PolicySet))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::SwapPrepare))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Prepared))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::SwapCommit))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::Committed))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::SwapAbort))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::SetRequest))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::PolicyFault))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::SwapAsked))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::RollbackAsked))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::PromoteAsked))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::SwapEnded))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::RequestEnded))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::ExpertTopology))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::ExpertLayerLoads))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::ExpertLoads))
CAF_ADD_TYPE_ID(troupe, (troupe::sched::ExpertPlan))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::LaneDone))
CAF_END_TYPE_ID_BLOCK(troupe)
