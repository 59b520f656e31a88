// Questions of every kind, drawn from a seed: what a policy is tested with before it is trusted.
//
// Built-in and loaded policies meet the same ones.

#pragma once

#include "schedulers/core/rng.hpp"
#include "schedulers/policy/questions.hpp"

#include <cstdint>

namespace troupe::sched::conformance {

/// What is special about a question.
enum class Situation : std::uint8_t {
  ordinary, ///< Up to eight candidates of usual sizes.
  empty,    ///< No candidate; where a kind always has one: as little as it can have.
  single,   ///< One candidate.
  many,     ///< Five hundred candidates.
  extreme,  ///< Values at the ends of what a host can ask with, counts up to 2^40.
};

/// A question that keeps what its kind promises to policies, except that `empty` has no candidate.
/// Pure: the same draws give the same question.
///
/// @param number  of the question in its run; time rises with it
template <class Question>
Question draw_question(Situation situation, Rng& rng, std::uint64_t number);

/// Equal ranks with room for hundreds of requests, ascending by id.
std::vector<RankView> equal_ranks(std::uint32_t count);

/// A request that arrives at `now_us`, of a session and a tenant of its own draw.
RequestView arriving_request(Rng& rng, std::uint64_t id, std::int64_t now_us);

/// The context of question `number` at `now_us`.
QuestionContext context_at(std::int64_t now_us, std::uint64_t number);

} // namespace troupe::sched::conformance
