// Makes room for the next step of the sequences that decode, and says who gave up theirs for it.
//
// Only sequences whose claim is `expected` grow beyond what they reserved, and only those are
// preempted: always whole, so that all their blocks come free.

#pragma once

#include "schedulers/stage/effects.hpp"
#include "schedulers/stage/sequence_table.hpp"

#include <cstdint>
#include <vector>

namespace troupe::sched {

/// A sequence that lost its room.
struct Preempted {
  RequestRef ref;
  std::int64_t blocks = 0; ///< That came free.
  bool outgrew = false;    ///< The whole rank could not hold its next token.
  RequestId beneficiary{}; ///< Whose next token needed a block; itself where it came last.
};

/// Promises each decoding sequence the block of its next token, the earliest request first. Where
/// no block is free, the latest request gives up all of its own, which may be the very one that
/// asks; ties by reference. Blocks of sequences that are given up but still worked on count as on
/// their way: whoever can wait for them takes nothing from others, and sits out steps until then.
///
///   Cost   O(sequences log sequences + victims · sequences)
///   @pre   no step runs
std::vector<Preempted> make_room(SequenceTable& table, std::int64_t block_tokens);

// Of a step that is planned while another one runs: nobody is preempted for it.

/// Blocks that its sequences lack, one each, and gives them. @pre so many are free
std::int64_t blocks_missing(const SequenceTable& table, std::int64_t block_tokens);
void give_missing_blocks(SequenceTable& table, std::int64_t block_tokens);

/// Blocks of sequences that are given up but still worked on.
std::int64_t blocks_on_their_way(const SequenceTable& table);

/// Tells the driver, the ledger and the shell's token log.
void announce(const Preempted& victim, RankRef rank, PolicyEpoch epoch, Effects& effects);

/// Whether the next token of a decoding sequence has its block.
bool has_next_block(const Sequence& sequence, std::int64_t block_tokens);

} // namespace troupe::sched
