#include "schedulers/policies/decode_balancer/migration.hpp"

#include "schedulers/model/integer_math.hpp"
#include "schedulers/model/queue_estimate.hpp"

#include <algorithm>
#include <optional>

namespace troupe::sched {
namespace {

std::int64_t load_ps(const CostModel& model, const MigrationRank& rank) {
  return model.decode_load_ps(rank.running, rank.context_tokens);
}

/// A step of the rank, its fixed part included.
std::int64_t step_ps(const CostModel& model, const MigrationRank& rank) {
  return add_saturated(model.step_ps, load_ps(model, rank));
}

std::int64_t bytes_ps(const MigrationOptions& options, std::int64_t bytes) {
  constexpr std::int64_t kPicosPerSecond = 1'000'000'000'000;
  return scale(bytes, kPicosPerSecond, std::max<std::int64_t>(1, options.link_bytes_per_s));
}

struct Plan {
  const MigrationOptions& options;
  const CostModel& model;
  std::vector<MigrationRank> ranks;
  std::vector<MigrationSequence> sequences;

  /// The slowest rank that may give: a draining one with sequences first.
  MigrationRank* giver() {
    MigrationRank* best = nullptr;
    for (MigrationRank& rank : ranks) {
      if (rank.moving || rank.running == 0) continue;
      const bool better =
          best == nullptr || (rank.draining && !best->draining) ||
          (rank.draining == best->draining && load_ps(model, rank) > load_ps(model, *best));
      if (better) best = &rank;
    }
    return best;
  }

  MigrationRank* taker(const MigrationRank& giver) {
    MigrationRank* best = nullptr;
    for (MigrationRank& rank : ranks) {
      if (rank.moving || rank.draining || rank.rank == giver.rank || rank.slots_free < 1) continue;
      if (best == nullptr || load_ps(model, rank) < load_ps(model, *best)) best = &rank;
    }
    return best;
  }

  /// What the group's step gets shorter when `sequence` moves; nothing when it may not.
  std::optional<Migration> rate(const MigrationRank& from, const MigrationRank& to,
                                const MigrationSequence& sequence) const {
    if (sequence.rank != from.rank || sequence.tokens_needed > to.tokens_free) return std::nullopt;
    const auto after_from =
        model.decode_load_ps(from.running - 1, from.context_tokens - sequence.context_tokens);
    const auto after_to =
        model.decode_load_ps(to.running + 1, to.context_tokens + sequence.context_tokens);
    const std::int64_t before = std::max(load_ps(model, from), load_ps(model, to));
    // The rest of the group may be slow too: what it holds back is not saved.
    std::int64_t others = std::max(after_from, after_to);
    for (const MigrationRank& rank : ranks) {
      if (rank.rank != from.rank && rank.rank != to.rank) {
        others = std::max(others, load_ps(model, rank));
      }
    }
    Migration move{sequence.ref, from.rank, to.rank, before - others,
                   copy_ps(options, sequence.context_tokens)};
    if (from.draining) return move;
    if (move.saved_ps <= 0 || sequence.steps_left < options.steps_left_min) return std::nullopt;
    const Int128 gain =
        static_cast<Int128>(multiply_saturated(move.saved_ps, sequence.steps_left)) *
        static_cast<Int128>(ranks.size());
    if (gain <= static_cast<Int128>(move.copy_ps) + options.penalty_ps) return std::nullopt;
    return move;
  }

  std::optional<Migration> best(const MigrationRank& from, const MigrationRank& to) const {
    std::optional<Migration> chosen;
    for (const MigrationSequence& sequence : sequences) {
      const auto move = rate(from, to, sequence);
      if (move && (!chosen || move->saved_ps > chosen->saved_ps ||
                   (move->saved_ps == chosen->saved_ps && move->copy_ps < chosen->copy_ps))) {
        chosen = move;
      }
    }
    return chosen;
  }

  void apply(const Migration& move, MigrationRank& from, MigrationRank& to) {
    const auto at = std::find_if(sequences.begin(), sequences.end(),
                                 [&](const MigrationSequence& s) { return s.ref == move.ref; });
    from.running -= 1;
    from.context_tokens -= at->context_tokens;
    to.running += 1;
    to.context_tokens += at->context_tokens;
    to.tokens_free -= at->tokens_needed;
    to.slots_free -= 1;
    from.moving = to.moving = true;
    sequences.erase(at);
  }
};

} // namespace

std::int64_t copy_ps(const MigrationOptions& options, std::int64_t context_tokens) noexcept {
  return bytes_ps(options, add_saturated(multiply_saturated(context_tokens, options.token_bytes),
                                         options.state_bytes));
}

CopyRounds plan_copy(const MigrationOptions& options, const CopyQuery& query) noexcept {
  CopyRounds plan;
  // Whole blocks go first; the one that still fills up is left for the end.
  std::int64_t left = query.context_tokens;
  while (left > query.block_tokens && plan.rounds < kCopyRounds) {
    const std::int64_t now = left - left % query.block_tokens;
    const std::int64_t ps = bytes_ps(options, multiply_saturated(now, options.token_bytes));
    plan.beside_ps = add_saturated(plan.beside_ps, ps);
    ++plan.rounds;
    const std::int64_t steps = ps / query.step_ps + 1;
    left = add_saturated(left - now, multiply_saturated(steps, query.tokens_per_step_max));
  }
  plan.tokens_last = left;
  plan.pause_ps = copy_ps(options, left);
  return plan;
}

std::vector<Migration> MigrationPlanner::plan(std::span<const MigrationRank> ranks,
                                              std::span<const MigrationSequence> sequences,
                                              const CostModel& model) {
  std::vector<Migration> moves;
  if (ranks.empty()) return moves;
  const auto faster = [&](const MigrationRank& a, const MigrationRank& b) {
    return load_ps(model, a) < load_ps(model, b);
  };
  const auto [low, high] = std::minmax_element(ranks.begin(), ranks.end(), faster);
  const bool unbalanced = ratio_less(1000 + options_.imbalance_permille, 1000,
                                     step_ps(model, *high), step_ps(model, *low));
  steps_unbalanced_ = unbalanced ? steps_unbalanced_ + 1 : 0;
  const bool may_level = steps_unbalanced_ >= options_.patience_steps;

  Plan state{options_, model, {ranks.begin(), ranks.end()}, {sequences.begin(), sequences.end()}};
  while (static_cast<std::int64_t>(moves.size()) < options_.moves_max) {
    MigrationRank* from = state.giver();
    if (from == nullptr || (!from->draining && !may_level)) break;
    MigrationRank* to = state.taker(*from);
    if (to == nullptr) break;
    const auto move = state.best(*from, *to);
    if (!move) break;
    state.apply(*move, *from, *to);
    moves.push_back(*move);
  }
  return moves;
}

} // namespace troupe::sched
