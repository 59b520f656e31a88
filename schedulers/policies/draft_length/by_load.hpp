// Verifies the drafts that are worth their time: few under high load, many when there is room.

#pragma once

#include "schedulers/policies/draft_length/residuals.hpp"
#include "schedulers/policies/draft_length/walk.hpp"
#include "schedulers/policy/draft_length_policy.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::sched {

/// How the number of verified drafts is found.
enum class DraftSearch : std::uint8_t {
  /// The best of all numbers, from confidences of two steps ago.
  throughput,
  /// From the current confidences, up to the first draft that does not pay.
  causal,
};

struct ByLoadOptions {
  /// Default throughput. Hot: yes.
  DraftSearch search = DraftSearch::throughput;
  /// Weight of a new measurement of step times; 0 trusts the table. Unit: thousandths (written as a
  /// number). Default 20. Range 0 to 1. Hot: yes.
  std::int64_t learn_permille = 20;
};

/// Tokens that come out over the time of the step are made highest: a draft is verified when its
/// survival exceeds the tokens so far over the time so far, so the bar rises with load.
///
/// The number of drafts K is chosen over all ranks that step together, because all wait for the
/// fullest; then the K currently likeliest drafts are taken, and drafts of other ranks that fit
/// below the fullest one at no cost. Without a cost table every draft is verified.
/// State: residuals of the cost table.
///
/// Source: policies.md section 5.2.
class ByLoadDrafts final : public DraftLengthPolicy {
public:
  explicit ByLoadDrafts(const ByLoadOptions& options) : options_(options) {}

  Decision<DraftLengths> choose(const DraftQuery& query,
                                const PolicyContext& ctx) noexcept override;
  void observe(const DraftOutcome& outcome) noexcept override;
  std::string export_state() const override;
  void import_state(const std::string& state) override;

private:
  /// How many of `count` drafts, the likeliest first, are worth verifying.
  ///
  /// @param survival  of the k-th draft  @param rank  that it would run on
  template <class Survival, class Rank>
  std::size_t best_count(const DraftQuery& query, std::size_t count, const Survival& survival,
                         const Rank& rank) const;
  /// Sets the lengths of rows on one rank, where only the number of drafts matters to the time;
  /// returns that number.
  std::size_t choose_on_one(const DraftQuery& query, DraftLengths& lengths) const;
  /// The same on several ranks that step together.
  std::size_t choose_on_many(const DraftQuery& query, DraftLengths& lengths) const;

  ByLoadOptions options_;
  Residuals residuals_;
};

} // namespace troupe::sched
