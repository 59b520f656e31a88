// Every message between the actors of a running system, as plain data.
//
// The stages take them as events and send them as effects; actors/messages.hpp gives the same
// structs to CAF. A message about a request begins with {request, attempt}, one about a rank with
// {rank, incarnation}; what is not current is dropped and counted. Floats travel as their bits.

#pragma once

#include "schedulers/core/digest.hpp"
#include "schedulers/core/error_codes.hpp"
#include "schedulers/core/ids.hpp"
#include "schedulers/model/request_view.hpp"
#include "schedulers/model/role.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::sched {

// -- what a request is -------------------------------------------------------------------------

/// How a request draws its tokens. No stage looks inside; it travels to the rank.
struct Sampling {
  std::uint32_t temperature_bits = 0x3F800000U; ///< float32 bits.
  std::uint32_t top_p_bits = 0x3F800000U;       ///< float32 bits.
  std::int32_t top_k = 0;
  std::uint64_t seed = 0;
  std::int32_t top_logprobs = -1; ///< -1 none, 0 the drawn token, n also the n best.
  std::int64_t new_tokens_min = 0;
  bool ignore_eos = false;
};

/// All that a rank needs to run a request; travels once to the chunker and once to a rank.
struct Work {
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> answered; ///< Token log: tokens already given to the client.
  std::vector<std::int32_t> stop_ids;
  std::int64_t new_tokens_max = 0; ///< Of the whole answer, `answered` included; >= 1.
  Sampling sampling;

  /// Tokens to prefill: the prompt and the token log.
  std::int64_t prefill_tokens() const noexcept {
    return static_cast<std::int64_t>(prompt.size() + answered.size());
  }
  /// Positions held at most: the last token drawn is never fed.
  std::int64_t positions_max() const noexcept {
    return static_cast<std::int64_t>(prompt.size()) + new_tokens_max;
  }
};

/// Why a request stopped by itself.
enum class EndReason : std::uint8_t { none, eos, stop_id, length };

// -- driver to chunker, and back to the driver ---------------------------------------------------

/// A request enters the pipeline in one attempt.
struct Submit {
  RequestRef ref;
  std::string tenant;
  std::uint64_t session_hash = 0; ///< Of its conversation; 0 = the tenant's, or one of its own.
  std::int64_t priority = 0;      ///< Higher goes first where a policy looks at it.
  std::int64_t arrival_us = 0;    ///< Of the first attempt: retries keep their place.
  std::int64_t deadline_us = 0;   ///< 0 = none.
  Work work;
  Claim claim;
};

/// How long answers get, whenever that changes: for requests that still wait.
struct AnswersExpected {
  std::uint32_t length_class = 0; ///< As in AnswerLengths.
  std::int64_t expected_p50 = 0;  ///< As in Claim.
  std::int64_t expected_p90 = 0;
};

/// Somebody asked to stop a request. Chunker and balancer forward a Release to the rank they know.
struct Cancel {
  RequestRef ref;
  ErrorCode reason = ErrorCode::cancelled;
};

/// A stage or rank cannot go on with a request.
struct Ended {
  RequestRef ref;
  ErrorCode code = ErrorCode::ok;
  bool retryable = false; ///< Lost by our fault: the driver may try again from its token log.
  std::string detail;
  RankRef rank; ///< The rank that says so; zero when a stage does.
};

/// A token with its log-probability and the best alternatives.
struct TokenRow {
  RequestRef ref;
  std::int64_t index = 0; ///< Output position of `token`; gaps and repeats show.
  std::int32_t token = 0;
  std::uint32_t logprob_bits = 0; ///< float32 bits of the raw log-probability.
  std::vector<std::int32_t> top_tokens;
  std::vector<std::uint32_t> top_logprob_bits;
  EndReason end = EndReason::none;
};

/// The tokens of one step of one rank: one message a step, never one a token.
struct Tokens {
  RankRef rank;
  std::uint64_t step = 0;
  std::vector<TokenRow> rows;
};

/// Where a prefill stands: routed to `rank`, `done` of its tokens computed.
struct Standing {
  RequestRef ref;
  RankRef rank;
  std::int64_t done = 0;
};

/// What admission and the watchdog see. Sent by the chunker after each change that matters.
struct Load {
  std::int64_t waiting = 0; ///< Requests in the queue, not yet routed.
  std::int64_t waiting_tokens = 0;
  std::int64_t least_work_ps = 0; ///< Smallest outstanding work of a usable prefill rank.
  std::int64_t ranks = 0;         ///< Usable prefill ranks.
  std::vector<Standing> moved;    ///< Prefills that were routed or advanced since the last Load.
};

// -- chunker and prefill rank ------------------------------------------------------------------

/// The chunker routed a request to this rank; the rank confirms or refuses.
struct Assign {
  RequestRef ref;
  RankRef rank;
  Work work;
  std::int64_t arrival_us = 0; ///< Of the first attempt: who came last is preempted first.
  Claim claim;
  std::int64_t lease_us = 0; ///< Until the prefill is complete; 0 = without limit.
  std::uint64_t session_hash = 0;
};

struct Assigned {
  RequestRef ref;
  RankRef rank;
};

/// No to an Assign (handoff 0) or to a Reserve.
struct Refused {
  RequestRef ref;
  RankRef rank;
  HandoffId handoff{};
  ErrorCode reason = ErrorCode::no_room;
};

/// Part of a request's prompt for one step.
struct Slice {
  RequestRef ref;
  std::int64_t first = 0; ///< Position of the first token.
  std::int64_t count = 0; ///< Tokens, >= 1.
  bool last = false;      ///< The prompt ends with it: the rank draws output token 0.
};

/// The packed slices of one step; may be empty, which tells a rank to go on with decoding alone.
struct RunChunks {
  RankRef rank;
  std::uint64_t step = 0;
  std::vector<Slice> slices;
};

/// How far a prefill has come.
struct Progress {
  RequestRef ref;
  std::int64_t done = 0; ///< Tokens of prefill_tokens() computed.
  std::int64_t total = 0;
  std::int64_t planned = 0; ///< Computed, or in a step in flight: where the next slice begins.
};

/// Snapshot of a rank, and the pull: "ready for step n". The receiver stamps as_of.
struct RankReport {
  RankRef rank;
  Role role = Role::both;
  std::uint64_t seq = 0;       ///< Ascending per incarnation.
  std::uint64_t step_next = 0; ///< The step it is ready for.
  bool wants_chunks = false;   ///< It waits for RunChunks{step_next}.
  bool draining = false;
  std::int64_t kv_blocks_free = 0;
  std::int64_t kv_blocks_reserved = 0; ///< Promised or held by sequences.
  std::int64_t kv_blocks_total = 0;
  std::int64_t slots_free = 0;
  std::int64_t slots_reserved = 0;
  std::int64_t slots_total = 0;
  std::int64_t running = 0;        ///< Sequences that decode.
  std::int64_t context_tokens = 0; ///< Of those.
  std::int64_t tokens_to_come = 0; ///< Of those, at most.
  std::int64_t last_step_tokens = 0;
  std::int64_t last_step_us = 0;
  std::vector<Progress> progress; ///< Prefills that advanced since the last report.
  std::vector<RequestRef> freed;  ///< Sequences whose slot and blocks came back since then.
};

// -- handoff -------------------------------------------------------------------------------------

/// A prefill is complete; the rank keeps slot and blocks until it hears Release or the lease ends.
struct PrefillDone {
  RequestRef ref;
  RankRef rank;
  std::int64_t positions = 0;     ///< Tokens in the KV.
  std::int64_t positions_max = 0; ///< What the decode rank must be able to hold.
  std::int64_t answered = 0;      ///< Output tokens so far.
  std::int64_t new_tokens_max = 0;
  std::int64_t arrival_us = 0; ///< Of the first attempt: the order of those that wait for room.
  std::int64_t lease_us = 0;   ///< Duration, counted by its holder from receipt.
  bool in_place = false;       ///< The rank decodes too and holds what it needs already.
  std::string manifest;        ///< Encoded handoff record; empty when in_place.
  Claim claim;
  std::uint64_t session_hash = 0;
};

struct Reserve {
  RequestRef ref;
  RankRef rank;
  HandoffId handoff{};
  std::int64_t positions_max = 0;
  std::int64_t lease_us = 0;
  std::int64_t answered = 0; ///< As in PrefillDone, with the next three.
  std::int64_t new_tokens_max = 0;
  std::int64_t arrival_us = 0;
  Claim claim;
};

struct Reserved {
  RequestRef ref;
  RankRef rank;
  HandoffId handoff{};
};

/// Prolongs a lease: by the chunker while a prefill is under way, then by the balancer to source
/// and target while the request is current.
struct Renew {
  RequestRef ref;
  RankRef rank;
  HandoffId handoff{};
  std::int64_t lease_us = 0;
};

/// Tells the target to read the sequence from the source.
struct Pull {
  RequestRef ref;
  RankRef rank; ///< Target.
  HandoffId handoff{};
  RankRef source;
  std::int64_t positions = 0; ///< Tokens in the KV: how many blocks arrive.
  std::string manifest;
};

struct TransferDone {
  RequestRef ref;
  RankRef rank;
  HandoffId handoff{};
  ErrorCode code = ErrorCode::ok;
  Digest digest; ///< Over all regions as they arrived.
  std::string detail;
};

/// Ownership moves: the target may decode.
struct Adopt {
  RequestRef ref;
  RankRef rank;
  HandoffId handoff{};
  Digest digest;
};

struct Adopted {
  RequestRef ref;
  RankRef rank;
  HandoffId handoff{};
};

/// The rank may free what it holds of a request.
struct Release {
  RequestRef ref;
  RankRef rank;
  ErrorCode reason = ErrorCode::ok;
};

// -- ranks come and go ----------------------------------------------------------------------------

/// Limits of a rank that joined.
struct RankUp {
  RankRef rank;
  Role role = Role::both;
  std::string name; ///< "prefill-0".
  std::int64_t kv_blocks = 0;
  std::int64_t block_tokens = 0;
  std::int64_t slots = 0;
  std::int64_t step_tokens_max = 0;
  std::int64_t context_max = 0;
};

struct RankDown {
  RankRef rank;
  ErrorCode reason = ErrorCode::rank_lost;
  bool comes_back = false; ///< A later life follows: what only this rank could hold waits for it.
};

/// supervisor → driver: no rank is left that does this half of the work, and none will come.
struct NoRankLeft {
  Role role = Role::both; ///< prefill or decode.
  std::string detail;     ///< For a person: which ranks, and why.
};

} // namespace troupe::sched
