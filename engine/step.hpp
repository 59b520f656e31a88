// StepPlan in, StepResult out: the arrays that cross the engine's door.
//
// Struct of arrays. Index i of every per-sequence array is the same sequence; spans into the flat
// arrays are [begin, begin + count). A plan stays valid and unchanged until its result is taken.

#pragma once

#include "schedulers/core/error_codes.hpp"
#include "schedulers/core/ids.hpp"

#include <cstdint>
#include <vector>

namespace troupe::engine {

/// Which rows of a sequence get logits, and with them a sampled token.
enum class Logits : std::uint8_t { none, last };

/// Half-open range into a flat array of the plan.
struct Span {
  std::int32_t begin = 0;
  std::int32_t count = 0;
};

/// How to draw one token. Floats of the client arrive as they are; the engine never rounds them.
struct SamplingPlan {
  float temperature = 1.0F;         ///< 0 = greedy; ties to the lower id.
  float top_p = 1.0F;               ///< (0, 1]; smallest set reaching it, lower id first on ties.
  std::int32_t top_k = 0;           ///< 0 = no limit.
  std::uint64_t seed = 0;           ///< Stream of the request.
  std::int64_t output_position = 0; ///< Index of the token to draw; counter of the stream.
  std::int32_t top_logprobs = -1;   ///< -1 none, 0 the drawn token only, n also the n best.
  Span suppressed;                  ///< Into StepPlan::suppressed_ids: ids that may not be drawn.
};

/// One engine step. A plan without sequences is legal and does nothing.
///
/// Prefill, decode and verification are the same thing with different token counts. Sequences
/// are distinct slots. `first_position` equals the slot's length; 0 resets the slot.
struct StepPlan {
  std::uint64_t step = 0;     ///< Number of the step on this rank, ascending.
  bool expert_counts = false; ///< Ask for StepResult::expert_counts.
  ExpertEpoch expert_epoch{}; ///< Map of experts; engines that hold all of them compute the same.

  std::vector<StateSlotId> state_slot;      ///< [sequences]
  std::vector<std::int64_t> first_position; ///< [sequences] position of the first token
  std::vector<Span> tokens_of;              ///< [sequences] into `tokens`, count >= 1
  std::vector<Span> blocks_of;              ///< [sequences] into `block_table`
  std::vector<Logits> logits;               ///< [sequences]
  std::vector<std::int32_t> sampling_of;    ///< [sequences] into `sampling`, -1 if logits is none

  std::vector<std::int32_t> tokens;   ///< All sequences one after the other.
  std::vector<KvBlockId> block_table; ///< Block j holds positions [j, j+1) * block_tokens.
  std::vector<SamplingPlan> sampling;
  std::vector<std::int32_t> suppressed_ids;

  std::size_t sequences() const noexcept { return state_slot.size(); }
};

/// A token id with the bits of its float32 log-probability.
struct TokenLogprob {
  std::int32_t token = 0;
  std::uint32_t logprob_bits = 0;
};

/// What a step did. A sequence is changed completely or, with an error, not at all.
struct StepResult {
  std::uint64_t step = 0;
  std::vector<ErrorCode> status;           ///< [sequences]
  std::vector<std::int64_t> length;        ///< [sequences] positions now held by the slot
  std::vector<std::int32_t> sampled;       ///< [sequences] -1 where no logits were asked for
  std::vector<std::uint32_t> logprob_bits; ///< [sequences] float32 bits, of the raw distribution
  std::vector<Span> top_of;                ///< [sequences] into `top`, best first
  std::vector<TokenLogprob> top;
  std::vector<std::int32_t> expert_counts; ///< [layers, experts] tokens, when asked for
  ExpertEpoch expert_epoch{};              ///< Of the plan.
  std::int64_t compute_us = 0;
};

} // namespace troupe::engine
