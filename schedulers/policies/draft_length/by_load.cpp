#include "schedulers/policies/draft_length/by_load.hpp"

#include "schedulers/policies/draft_length/one_rank.hpp"
#include "schedulers/policies/draft_length/walk.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <vector>

namespace troupe::sched {
namespace {

/// Drafts below the fullest rank cost nothing: the likeliest of each other rank, as far as the
/// size that runs anyway reaches.
void fill_below(const DraftQuery& query, const std::vector<Draft>& drafts, std::size_t taken,
                std::vector<std::int64_t>& tokens, DraftLengths& lengths) {
  const std::int64_t fullest = *std::max_element(tokens.begin(), tokens.end());
  for (std::size_t i = taken; i < drafts.size(); ++i) {
    const std::uint32_t rank = query.rows[drafts[i].row].rank;
    if (drafts[i].survival <= 0 || tokens[rank] >= fullest) continue;
    if (lengths.lengths[drafts[i].row] != drafts[i].position) continue;
    ++lengths.lengths[drafts[i].row];
    ++tokens[rank];
  }
}

} // namespace

template <class Survival, class Rank>
std::size_t ByLoadDrafts::best_count(const DraftQuery& query, std::size_t count,
                                     const Survival& survival, const Rank& rank) const {
  CorrectedWalk costs(query.costs, residuals_);
  const auto ps_of = [&](std::int64_t tokens) {
    return std::max<std::int64_t>(1, costs.at(tokens));
  };
  std::vector<std::int64_t> tokens(query.rank_tokens.begin(), query.rank_tokens.end());
  std::int64_t fullest = *std::max_element(tokens.begin(), tokens.end());
  std::int64_t out = static_cast<std::int64_t>(query.rows.size()) * kCertain;
  std::int64_t ps = ps_of(fullest);
  std::int64_t best_out = out;
  std::int64_t best_ps = ps;
  std::size_t best = 0;
  for (std::size_t k = 0; k < count; ++k) {
    out += survival(k);
    if (++tokens[rank(k)] > fullest) {
      ++fullest;
      ps = ps_of(fullest);
    }
    if (ps == StepCosts::kNever) break;
    // best_out / best_ps < out / ps
    if (ratio_less(best_out, best_ps, out, ps)) {
      best_out = out;
      best_ps = ps;
      best = k + 1;
    } else if (options_.search == DraftSearch::causal) {
      break;
    }
  }
  return best;
}

std::size_t ByLoadDrafts::choose_on_one(const DraftQuery& query, DraftLengths& lengths) const {
  const bool old = options_.search == DraftSearch::throughput;
  const SurvivalBuckets drafts(query.rows, old);
  const bool never_falls = query.costs.curve == CostCurve::staircase && query.costs.token_ps >= 0;
  if (old && never_falls) {
    return take_likeliest(query.rows, best_count_on_one(query, residuals_, drafts),
                          lengths.lengths);
  }
  const std::vector<std::int64_t> survivals = drafts.falling();
  const std::size_t count = best_count(
      query, survivals.size(), [&](std::size_t k) { return survivals[k]; },
      [](std::size_t) { return std::size_t{0}; });
  return take_likeliest(query.rows, count, lengths.lengths);
}

std::size_t ByLoadDrafts::choose_on_many(const DraftQuery& query, DraftLengths& lengths) const {
  const std::vector<Draft> drafts = ranked(query.rows, false);
  const bool old = options_.search == DraftSearch::throughput;
  const std::vector<Draft> asked = old ? ranked(query.rows, true) : drafts;
  const std::size_t best = best_count(
      query, asked.size(), [&](std::size_t k) { return asked[k].survival; },
      [&](std::size_t k) { return std::size_t{query.rows[asked[k].row].rank}; });
  const std::size_t count = std::min(best, drafts.size());
  std::vector<std::int64_t> tokens(query.rank_tokens.begin(), query.rank_tokens.end());
  for (std::size_t k = 0; k < count; ++k) {
    ++lengths.lengths[drafts[k].row];
    ++tokens[query.rows[drafts[k].row].rank];
  }
  fill_below(query, drafts, count, tokens, lengths);
  return count;
}

Decision<DraftLengths> ByLoadDrafts::choose(const DraftQuery& query,
                                            const PolicyContext& /*ctx*/) noexcept {
  DraftLengths lengths;
  lengths.lengths.assign(query.rows.size(), 0);
  const bool known_ranks =
      std::all_of(query.rows.begin(), query.rows.end(),
                  [&](const DraftRow& row) { return row.rank < query.rank_tokens.size(); });
  if (query.rows.empty() || query.costs.points.empty() || !known_ranks) {
    for (std::size_t row = 0; row < query.rows.size(); ++row)
      lengths.lengths[row] = static_cast<std::int64_t>(query.rows[row].survivals.size());
    finish_lengths(query, residuals_, lengths);
    return {std::move(lengths), Reason::nothing_to_do};
  }
  const std::size_t count = query.rank_tokens.size() == 1 ? choose_on_one(query, lengths)
                                                          : choose_on_many(query, lengths);
  finish_lengths(query, residuals_, lengths);
  return {std::move(lengths),
          count == draft_count(query.rows) ? Reason::within_budget : Reason::budget_reached};
}

void ByLoadDrafts::observe(const DraftOutcome& outcome) noexcept {
  residuals_.learn(outcome.tokens, outcome.expected_ps, outcome.measured_ps,
                   options_.learn_permille);
}

std::string ByLoadDrafts::export_state() const {
  std::string text;
  for (const std::int64_t off : residuals_.off)
    text += std::to_string(off) + ' ';
  return text;
}

void ByLoadDrafts::import_state(const std::string& state) {
  Residuals read;
  const char* at = state.data();
  const char* end = at + state.size();
  for (std::int64_t& off : read.off) {
    const auto [rest, failed] = std::from_chars(at, end, off);
    if (failed != std::errc{} || rest == end || *rest != ' ') return;
    off = std::clamp(off, -Residuals::kClamp, Residuals::kClamp);
    at = rest + 1;
  }
  residuals_ = read;
}

} // namespace troupe::sched
