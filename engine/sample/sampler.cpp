// Sampling in double precision, sums always over ids ascending.

#include "engine/sample/sampler.hpp"

#include "schedulers/core/rng.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace troupe::engine {

namespace {

/// An id that may be drawn. `weight` is its unnormalised probability.
struct Candidate {
  std::int32_t id = 0;
  float logit = 0;
  double weight = 0;
};

bool better(float a_logit, std::int32_t a_id, float b_logit, std::int32_t b_id) {
  return a_logit != b_logit ? a_logit > b_logit : a_id < b_id;
}

bool better_candidate(const Candidate& a, const Candidate& b) {
  return better(a.logit, a.id, b.logit, b.id);
}

/// As a heap order: the best candidate at the front.
bool worse_candidate(const Candidate& a, const Candidate& b) { return better_candidate(b, a); }

bool by_id(const Candidate& a, const Candidate& b) { return a.id < b.id; }

/// Ids ascending, as the passes below want them.
std::vector<std::int32_t> ascending(std::span<const std::int32_t> ids) {
  std::vector<std::int32_t> sorted(ids.begin(), ids.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

/// True when no exponent is all ones; one pass of integer operations.
bool all_finite(std::span<const float> logits) {
  constexpr std::uint32_t kExponent = 0x7F800000;
  std::uint32_t bad = 0;
  for (const float logit : logits) {
    bad |=
        static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(logit) & kExponent) == kExponent);
  }
  return bad == 0;
}

Error not_finite(std::span<const float> logits) {
  std::size_t id = 0;
  while (std::isfinite(logits[id]))
    ++id;
  return {ErrorCode::engine_failed, "logit " + std::to_string(id) + " is " +
                                        std::to_string(logits[id]) +
                                        ", expected a finite number; is the checkpoint damaged?"};
}

/// Lowest id of the largest logit; -1 when there is none. Lanes keep the comparisons independent.
std::int32_t largest_id(std::span<const float> logits) {
  if (logits.empty()) return -1;
  constexpr std::size_t kLanes = 16;
  float lane[kLanes];
  std::fill(lane, lane + kLanes, logits[0]);
  const std::size_t whole = logits.size() / kLanes * kLanes;
  for (std::size_t begin = 0; begin < whole; begin += kLanes) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      lane[i] = logits[begin + i] > lane[i] ? logits[begin + i] : lane[i];
    }
  }
  float largest = *std::max_element(lane, lane + kLanes);
  for (std::size_t id = whole; id < logits.size(); ++id)
    largest = std::max(largest, logits[id]);
  return static_cast<std::int32_t>(std::find(logits.begin(), logits.end(), largest) -
                                   logits.begin());
}

/// Calls `visit(id)` for every id that is not in `suppressed` (ascending), ids ascending.
template <class Visit>
void for_allowed(std::size_t vocab, const std::vector<std::int32_t>& suppressed, Visit visit) {
  auto skip = suppressed.begin();
  for (std::size_t id = 0; id < vocab; ++id) {
    while (skip != suppressed.end() && *skip < static_cast<std::int32_t>(id))
      ++skip;
    if (skip != suppressed.end() && *skip == static_cast<std::int32_t>(id)) continue;
    visit(static_cast<std::int32_t>(id));
  }
}

/// Natural logarithm of the sum of exp(logit), sum ascending by id.
double log_sum_exp(std::span<const float> logits, float largest) {
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp(static_cast<double>(logit) - static_cast<double>(largest));
  }
  return static_cast<double>(largest) + std::log(sum);
}

std::uint32_t logprob_bits(float logit, double normaliser) {
  return std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<double>(logit) - normaliser));
}

/// The `count` largest logits, best first, by a bounded heap whose front is the worst kept.
void append_top(std::span<const float> logits, double normaliser, std::size_t count,
                std::vector<TokenLogprob>& top) {
  if (count == 0) return;
  std::vector<Candidate> kept;
  kept.reserve(count);
  for (std::size_t id = 0; id < logits.size(); ++id) {
    const Candidate now{static_cast<std::int32_t>(id), logits[id], 0};
    if (kept.size() == count) {
      if (!better_candidate(now, kept.front())) continue;
      std::pop_heap(kept.begin(), kept.end(), better_candidate);
      kept.pop_back();
    }
    kept.push_back(now);
    std::push_heap(kept.begin(), kept.end(), better_candidate);
  }
  std::sort(kept.begin(), kept.end(), better_candidate);
  for (const Candidate& candidate : kept) {
    top.push_back({candidate.id, logprob_bits(candidate.logit, normaliser)});
  }
}

/// Keeps the smallest best-first set whose weight reaches top_p of the whole.
void keep_nucleus(std::vector<Candidate>& candidates, double top_p) {
  double total = 0;
  for (const Candidate& candidate : candidates)
    total += candidate.weight;
  const double wanted = top_p * total;
  // What is dropped here weighs less than half of what the set may leave out, so the set is the
  // same; most of a large vocabulary never enters the heap.
  const double least = (1 - top_p) * total / static_cast<double>(candidates.size()) / 2;
  std::erase_if(candidates, [&](const Candidate& candidate) { return candidate.weight < least; });
  std::make_heap(candidates.begin(), candidates.end(), worse_candidate);
  auto end = candidates.end();
  for (double sum = 0; end != candidates.begin() && sum < wanted; --end) {
    std::pop_heap(candidates.begin(), end, worse_candidate);
    sum += std::prev(end)->weight;
  }
  candidates.erase(candidates.begin(), end);
  std::sort(candidates.begin(), candidates.end(), by_id);
}

/// Index into `candidates` (ascending by id) where the running weight passes the drawn share.
std::int32_t draw_candidate(const std::vector<Candidate>& candidates, const SamplingPlan& plan) {
  double total = 0;
  for (const Candidate& candidate : candidates)
    total += candidate.weight;
  const std::uint64_t bits =
      draw(plan.seed, static_cast<std::uint64_t>(plan.output_position), Purpose::sampling);
  const double share = static_cast<double>(bits >> 11) * 0x1.0p-53;
  const double target = share * total;
  double sum = 0;
  std::int32_t last = candidates.front().id;
  for (const Candidate& candidate : candidates) {
    if (candidate.weight <= 0) continue;
    sum += candidate.weight;
    last = candidate.id;
    if (sum > target) break;
  }
  return last;
}

/// Lowest id of the largest logit that is not suppressed; -1 when all are.
std::int32_t best_allowed(std::span<const float> logits,
                          const std::vector<std::int32_t>& suppressed, std::int32_t best_raw) {
  if (!std::binary_search(suppressed.begin(), suppressed.end(), best_raw)) return best_raw;
  std::int32_t best = -1;
  for_allowed(logits.size(), suppressed, [&](std::int32_t id) {
    const float logit = logits[static_cast<std::size_t>(id)];
    if (best < 0 || logit > logits[static_cast<std::size_t>(best)]) best = id;
  });
  return best;
}

std::int32_t sample_allowed(std::span<const float> logits, const SamplingPlan& plan,
                            const std::vector<std::int32_t>& suppressed, float largest) {
  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  for_allowed(logits.size(), suppressed, [&](std::int32_t id) {
    candidates.push_back({id, logits[static_cast<std::size_t>(id)], 0});
  });
  const auto k = static_cast<std::size_t>(plan.top_k);
  if (k > 0 && k < candidates.size()) {
    std::nth_element(candidates.begin(), candidates.begin() + plan.top_k - 1, candidates.end(),
                     better_candidate);
    candidates.resize(k);
    std::sort(candidates.begin(), candidates.end(), by_id);
  }
  const auto temperature = static_cast<double>(plan.temperature);
  for (Candidate& candidate : candidates) {
    const double gap = static_cast<double>(candidate.logit) - static_cast<double>(largest);
    candidate.weight = std::exp(gap / temperature);
  }
  if (plan.top_p < 1) keep_nucleus(candidates, static_cast<double>(plan.top_p));
  return draw_candidate(candidates, plan);
}

} // namespace

Result<TokenLogprob> sample_token(std::span<const float> logits, const SamplingPlan& plan,
                                  std::span<const std::int32_t> suppressed_ids,
                                  std::vector<TokenLogprob>& top) {
  if (!all_finite(logits)) return not_finite(logits);
  const std::vector<std::int32_t> suppressed = ascending(suppressed_ids);
  const std::int32_t best_raw = largest_id(logits);
  const std::int32_t best = best_allowed(logits, suppressed, best_raw);
  if (best < 0) {
    return Error{ErrorCode::invalid_request, "every id of the vocabulary is suppressed"};
  }
  TokenLogprob drawn{best, 0};
  if (plan.temperature > 0) {
    drawn.token = sample_allowed(logits, plan, suppressed, logits[static_cast<std::size_t>(best)]);
  }
  if (plan.top_logprobs >= 0) {
    const double normaliser = log_sum_exp(logits, logits[static_cast<std::size_t>(best_raw)]);
    drawn.logprob_bits = logprob_bits(logits[static_cast<std::size_t>(drawn.token)], normaliser);
    const auto count = std::min(static_cast<std::size_t>(plan.top_logprobs), logits.size());
    append_top(logits, normaliser, count, top);
  }
  return drawn;
}

} // namespace troupe::engine
