// Drafts of all rows by falling survival, and what a set of lengths yields.

#pragma once

#include "schedulers/policies/draft_length/residuals.hpp"
#include "schedulers/policies/draft_length/survival_buckets.hpp"
#include "schedulers/policy/draft_length_policy.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::sched {

/// Draft `position` of row `row`.
struct Draft {
  std::int64_t survival = 0;
  std::uint32_t row = 0;
  std::uint32_t position = 0;
};

/// The likelier one; of equal ones the lower row, then the earlier position.
inline bool likelier(const Draft& a, const Draft& b) noexcept {
  if (a.survival != b.survival) return a.survival > b.survival;
  return a.row != b.row ? a.row < b.row : a.position < b.position;
}

/// All drafts, the likeliest first; of equal ones the lower row, then the earlier position. A draft
/// never comes before one that it builds on, because survivals do not rise within a row.
inline std::vector<Draft> ranked(std::span<const DraftRow> rows, bool old) {
  std::vector<Draft> drafts;
  for (std::uint32_t row = 0; row < rows.size(); ++row) {
    const auto survivals = survivals_of(rows[row], old);
    for (std::uint32_t position = 0; position < survivals.size(); ++position)
      drafts.push_back({survivals[position], row, position});
  }
  std::sort(drafts.begin(), drafts.end(), likelier);
  return drafts;
}

inline std::size_t draft_count(std::span<const DraftRow> rows) noexcept {
  std::size_t count = 0;
  for (const DraftRow& row : rows)
    count += row.survivals.size();
  return count;
}

/// Adds to `lengths` what the first `count` of ranked(rows, false) add, or all of them when they
/// are fewer; returns how many that was.
///
///   Cost   O(drafts)
std::size_t take_likeliest(std::span<const DraftRow> rows, std::size_t count,
                           std::vector<std::int64_t>& lengths);

/// Sets the expectation and the time of `lengths` by what is known now.
inline void finish_lengths(const DraftQuery& query, const Residuals& residuals,
                           DraftLengths& lengths) {
  std::vector<std::int64_t> tokens(query.rank_tokens.begin(), query.rank_tokens.end());
  lengths.expected = static_cast<std::int64_t>(query.rows.size()) * kCertain;
  for (std::size_t row = 0; row < query.rows.size(); ++row) {
    const std::int64_t length = lengths.lengths[row];
    for (std::int64_t j = 0; j < length; ++j)
      lengths.expected += query.rows[row].survivals[static_cast<std::size_t>(j)];
    if (query.rows[row].rank < tokens.size()) tokens[query.rows[row].rank] += length;
  }
  const std::int64_t fullest = tokens.empty() ? 0 : *std::max_element(tokens.begin(), tokens.end());
  if (!query.costs.points.empty()) lengths.step_ps = residuals.corrected(query.costs, fullest);
}

} // namespace troupe::sched
