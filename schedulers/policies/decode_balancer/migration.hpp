// Which sequences move from the slowest rank of a synchronous group to the fastest, by live copy.
//
// A group steps as fast as its slowest rank, so a move pays for all ranks at once; what it costs is
// the pause of the moved sequence while its last blocks are copied.

#pragma once

#include "schedulers/core/ids.hpp"
#include "schedulers/model/cost_model.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::sched {

struct MigrationOptions {
  /// The slowest rank must exceed the fastest by this share. Unit: thousandths. Default 50.
  std::int64_t imbalance_permille = 50;
  /// ... in so many steps in a row. Unit: steps. Default 32.
  std::int64_t patience_steps = 32;
  /// Sequences with less to do stay. Unit: steps. Default 16.
  std::int64_t steps_left_min = 16;
  /// Added to the cost of a move. Unit: ps. Default 0.
  std::int64_t penalty_ps = 0;
  /// KV of one token, and the fixed state of one sequence. Unit: bytes.
  std::int64_t token_bytes = 890;
  std::int64_t state_bytes = 2'900'000;
  /// Unit: bytes a second. Default 50 GB/s. >= 1.
  std::int64_t link_bytes_per_s = 50'000'000'000;
  /// Moves planned in one call. Unit: moves. Default 1.
  std::int64_t moves_max = 1;
};

/// One rank of the group.
struct MigrationRank {
  RankId rank{};
  std::int64_t running = 0;
  std::int64_t context_tokens = 0;
  std::int64_t tokens_free = 0; ///< Of its KV, headroom already taken off.
  std::int64_t slots_free = 0;
  bool draining = false; ///< Gives, never takes, and needs no imbalance to give.
  bool moving = false;   ///< A migration from or to it is under way.
};

/// One sequence that could move.
struct MigrationSequence {
  RequestRef ref;
  RankId rank{};
  std::int64_t context_tokens = 0;
  std::int64_t tokens_needed = 0; ///< Room it needs where it goes: its worst case, >= context.
  std::int64_t steps_left = 0;    ///< Expected.
};

struct Migration {
  RequestRef ref;
  RankId from{};
  RankId to{};
  std::int64_t saved_ps = 0; ///< Of each step of the group.
  std::int64_t copy_ps = 0;
};

/// Time to copy one sequence.
std::int64_t copy_ps(const MigrationOptions& options, std::int64_t context_tokens) noexcept;

/// A copy in rounds: while one runs the sequence goes on, and the next copies what was added. The
/// last one, with at most one kv block and the fixed state, runs while the sequence skips a step.
struct CopyRounds {
  std::int64_t rounds = 0;      ///< Beside decoding; at most kCopyRounds.
  std::int64_t beside_ps = 0;   ///< What they take.
  std::int64_t pause_ps = 0;    ///< What the last one takes.
  std::int64_t tokens_last = 0; ///< That the last one copies.
};

/// A sequence that grows faster than the link copies pauses after so many rounds.
inline constexpr std::int64_t kCopyRounds = 8;

struct CopyQuery {
  std::int64_t context_tokens = 0;
  std::int64_t block_tokens = 64;       ///< >= 1.
  std::int64_t step_ps = 1;             ///< Of the group; >= 1.
  std::int64_t tokens_per_step_max = 1; ///< That a step adds: one, and verified drafts.
};

CopyRounds plan_copy(const MigrationOptions& options, const CopyQuery& query) noexcept;

/// Plans moves for one group; one instance sees every step of it.
///
/// A sequence moves only when it fits, the slower of the two ranks gets faster, and
/// saved time · steps left · ranks > copy time + penalty. Pairs the slowest rank with the fastest
/// one; a rank takes part in one move at a time. Draining ranks give to the fastest as long as
/// there is room, whatever it saves.
///
///   Pure     ties to the lower rank, then to the lower request
///   Cost     O(moves · (ranks + sequences))
///
/// Source: policies.md section 3.5; Llumnix (OSDI 2024).
class MigrationPlanner {
public:
  explicit MigrationPlanner(const MigrationOptions& options) : options_(options) {}

  /// @param ranks  [ranks] ascending by id, of one group  @param sequences  ascending by ref
  std::vector<Migration> plan(std::span<const MigrationRank> ranks,
                              std::span<const MigrationSequence> sequences, const CostModel& model);

  std::int64_t steps_unbalanced() const noexcept { return steps_unbalanced_; }

private:
  MigrationOptions options_;
  std::int64_t steps_unbalanced_ = 0;
};

} // namespace troupe::sched
