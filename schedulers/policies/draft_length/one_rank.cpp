#include "schedulers/policies/draft_length/one_rank.hpp"

#include "schedulers/model/integer_math.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace troupe::sched {
namespace {

/// Tokens out, in 2^-30, over the time of their step.
struct Yield {
  std::int64_t out = 0;
  std::int64_t ps = 1;

  bool operator<(const Yield& other) const noexcept {
    return ratio_less(out, ps, other.out, other.ps);
  }
};

class Search {
public:
  Search(const DraftQuery& query, const Residuals& residuals, const SurvivalBuckets& drafts)
      : query_(query), residuals_(residuals), drafts_(drafts),
        none_out_(static_cast<std::int64_t>(query.rows.size()) * kCertain) {}

  std::size_t best_count() const {
    const auto [first, last] = buckets_to_try();
    const auto tried = first <= last ? drafts_.falling(first, last) : std::vector<std::int64_t>{};
    CorrectedWalk costs(query_.costs, residuals_);
    Yield best{none_out_, ps_at(costs, 0)};
    std::size_t best_count = 0;
    std::size_t count = 0;
    std::int64_t out = none_out_;
    auto next = tried.begin();
    for (std::size_t b = 0; b < SurvivalBuckets::kBuckets; ++b) {
      const SurvivalBuckets::Bucket& bucket = drafts_.buckets()[b];
      if (b < first || b > last) {
        count += bucket.count;
        out += bucket.sum;
        continue;
      }
      for (const std::size_t end = count + bucket.count; count < end;) {
        out += *next++;
        const Yield yield{out, ps_at(costs, ++count)};
        if (!(best < yield)) continue;
        best = yield;
        best_count = count;
      }
    }
    return best_count;
  }

private:
  std::int64_t ps_at(CorrectedWalk& costs, std::size_t count) const {
    const std::int64_t tokens = query_.rank_tokens[0] + static_cast<std::int64_t>(count);
    return std::max<std::int64_t>(1, costs.at(tokens));
  }

  /// The first and the last bucket that may hold the best number, or one as good; none when the
  /// first is behind the last.
  std::pair<std::size_t, std::size_t> buckets_to_try() const {
    std::array<Yield, SurvivalBuckets::kBuckets> at_most;
    CorrectedWalk costs(query_.costs, residuals_);
    Yield best{none_out_, ps_at(costs, 0)};
    std::size_t count = 0;
    std::int64_t out = none_out_;
    for (std::size_t b = 0; b < SurvivalBuckets::kBuckets; ++b) {
      const SurvivalBuckets::Bucket& bucket = drafts_.buckets()[b];
      if (bucket.count == 0) continue;
      const std::int64_t first = query_.rank_tokens[0] + static_cast<std::int64_t>(count) + 1;
      count += bucket.count;
      out += bucket.sum;
      const std::int64_t last = query_.rank_tokens[0] + static_cast<std::int64_t>(count);
      at_most[b] = {out, std::max<std::int64_t>(1, costs.lowest(first, last))};
      const Yield border{out, ps_at(costs, count)};
      if (best < border) best = border;
    }
    std::pair<std::size_t, std::size_t> found{SurvivalBuckets::kBuckets, 0};
    for (std::size_t b = 0; b < SurvivalBuckets::kBuckets; ++b) {
      if (drafts_.buckets()[b].count == 0 || at_most[b] < best) continue;
      found.first = std::min(found.first, b);
      found.second = b;
    }
    return found;
  }

  const DraftQuery& query_;
  const Residuals& residuals_;
  const SurvivalBuckets& drafts_;
  std::int64_t none_out_; ///< Without a draft.
};

} // namespace

std::size_t best_count_on_one(const DraftQuery& query, const Residuals& residuals,
                              const SurvivalBuckets& drafts) {
  return Search(query, residuals, drafts).best_count();
}

} // namespace troupe::sched
