// Planted bugs: each must be found by an invariant, else the invariants are worth nothing.

#pragma once

#include "schedulers/stage/effects.hpp"

#include <cstdint>

namespace troupe::sim {

enum class Canary : std::uint8_t {
  none,
  wrong_token,   ///< A token of an answer is another one.
  lost_token,    ///< A token is left out.
  doubled_token, ///< A token comes twice.
  second_ending, ///< A request ends twice.
  lost_ending,   ///< The ending of a request never comes.
  early_ending,  ///< A request says that it ended before it did.
  no_reason,     ///< A decision without reason.
  wrong_epoch,   ///< A decision of another policy set.
  leak,          ///< A rank counts a block that it does not have.
  kept_log,      ///< A rank is not told to forget a sequence.
  foreign_block, ///< A step uses the block of another sequence.
  skipped_chunk, ///< A step leaves out a token of a prompt.
  wide_queue,    ///< A queue takes more than its bound.
};

/// Plants the bug into the effects of a handler. `countdown` falls with each place that fits; the
/// bug happens once, where it reaches 0.
void spoil(Canary canary, std::int64_t& countdown, sched::Effects& effects);

} // namespace troupe::sim
