// Policies in C++17 over the C ABI: derive from the class of a kind, say TROUPE_PLUGIN(...) once.
//
// Header only; what it makes is the C tables of policy_abi.h. No exception leaves a policy: one
// that is thrown becomes a failed call with its text.

#pragma once

#include "schedulers/plugin/policy_abi.h"
#include "schedulers/plugin/policy_options.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <limits>
#include <new>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

namespace troupe::sdk {

using RequestView = troupe_request_view;
using RankView = troupe_rank_view;
using SliceView = troupe_slice_view;
using DecodeView = troupe_decode_view;
using LoadView = troupe_load_view;
using OverlapView = troupe_overlap_view;
using CostModel = troupe_cost_model;

// -- What a policy is asked with --

/// Structs that lie `stride` bytes apart, because a newer host may know more fields of each.
template <class T>
class Views {
public:
  class Iterator {
  public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = const T*;
    using reference = const T&;

    Iterator() = default;
    Iterator(const troupe_array* array, std::size_t place) : array_(array), place_(place) {}
    reference operator*() const { return *static_cast<const T*>(troupe_at(array_, place_)); }
    pointer operator->() const { return &**this; }
    Iterator& operator++() { return ++place_, *this; }
    Iterator operator++(int) { return Iterator(array_, place_++); }
    friend bool operator==(Iterator a, Iterator b) { return a.place_ == b.place_; }
    friend bool operator!=(Iterator a, Iterator b) { return a.place_ != b.place_; }

  private:
    const troupe_array* array_ = nullptr;
    std::size_t place_ = 0;
  };

  explicit Views(const troupe_array& array) : array_(&array) {}

  std::size_t size() const { return array_->n; }
  bool empty() const { return array_->n == 0; }
  /// @pre place < size()
  const T& operator[](std::size_t place) const {
    return *static_cast<const T*>(troupe_at(array_, place));
  }
  Iterator begin() const { return {array_, 0}; }
  Iterator end() const { return {array_, array_->n}; }

private:
  const troupe_array* array_;
};

using Requests = Views<RequestView>;
using Ranks = Views<RankView>;

/// Time, randomness and the host's arithmetic: all that a policy may use besides its views.
class Call {
public:
  explicit Call(const troupe_call& call) : call_(&call) {}

  std::int64_t now_us() const { return call_->now_us; }
  std::uint64_t policy_epoch() const { return call_->policy_epoch; }
  /// What one step of a prefill rank may take; 0 = none.
  std::int64_t step_budget_ps() const { return call_->step_budget_ps; }
  std::int64_t block_tokens() const { return call_->block_tokens; }
  const CostModel& cost_model() const { return *call_->cost_model; }

  std::uint64_t bits() const { return call_->rng_next(call_->rng); }
  /// Uniform in [0, n). @pre n > 0
  std::uint64_t below(std::uint64_t n) const { return troupe_below(call_, n); }

  /// A chunk of n tokens after c, without the fixed part of a step.
  std::int64_t marginal_ps(std::int64_t n, std::int64_t c) const {
    return call_->host->marginal_ps(call_->cost_model, n, c);
  }
  std::int64_t decode_load_ps(std::int64_t sequences, std::int64_t context_tokens) const {
    return call_->host->decode_load_ps(call_->cost_model, sequences, context_tokens);
  }
  /// Largest n >= 0 with marginal_ps(n, c) <= budget_ps.
  std::int64_t largest_chunk(std::int64_t budget_ps, std::int64_t c) const {
    return call_->host->largest_chunk(call_->cost_model, budget_ps, c);
  }

private:
  const troupe_call* call_;
};

/// The options of the policy file, checked by the host against the policy's schema.
class Options {
public:
  explicit Options(const char* json) : json_(json) {}

  std::int64_t integer(const char* key, std::int64_t fallback) const {
    return troupe_option_integer(json_, key, fallback);
  }
  /// A number as thousandths: 1.5 gives 1500.
  std::int64_t thousandths(const char* key, std::int64_t fallback) const {
    return troupe_option_thousandths(json_, key, fallback);
  }
  bool boolean(const char* key, bool fallback) const {
    return troupe_option_boolean(json_, key, fallback ? 1 : 0) != 0;
  }
  /// Whether the value is this word.
  bool is(const char* key, const char* word) const {
    return troupe_option_is(json_, key, word) != 0;
  }

private:
  const char* json_;
};

// -- What a policy answers --

/// a + b, at the end of the range where that is beyond it: work_ps is INT64_MAX when it is endless.
inline std::int64_t add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b > 0 ? std::numeric_limits<std::int64_t>::max()
               : std::numeric_limits<std::int64_t>::min();
}

/// Whether there is a choice, and why so.
struct Verdict {
  std::int32_t status = TROUPE_FAILED;
  std::uint32_t reason = TROUPE_REASON_UNSET;
  std::int64_t retry_at_us = 0;

  static Verdict done(std::uint32_t reason) { return {TROUPE_DONE, reason, 0}; }
  /// No choice; asked again at `retry_at_us`, with 0 at any event.
  static Verdict none(std::uint32_t reason, std::int64_t retry_at_us = 0) {
    return {TROUPE_NONE, reason, retry_at_us};
  }
};

/// The order of a queue, to be filled.
class Order {
public:
  Order(std::uint32_t* positions, std::size_t n) : positions_(positions), n_(n) {}

  std::size_t size() const { return n_; }
  /// Place of the request that goes `turn`-th. @pre turn < size()
  std::uint32_t& operator[](std::size_t turn) { return positions_[turn]; }

  /// By rising key(request), which may be a tuple; then by arrival, then by id.
  template <class Key>
  void by(const Requests& waiting, const Key& key) {
    using Value = std::decay_t<decltype(key(waiting[0]))>;
    std::vector<std::tuple<Value, std::int64_t, std::uint32_t>> keys;
    keys.reserve(n_);
    // Requests come ascending by id, so their places break the last tie.
    for (std::size_t i = 0; i < n_; ++i)
      keys.emplace_back(key(waiting[i]), waiting[i].arrival_us, static_cast<std::uint32_t>(i));
    std::sort(keys.begin(), keys.end());
    for (std::size_t i = 0; i < n_; ++i)
      positions_[i] = std::get<2>(keys[i]);
  }

private:
  std::uint32_t* positions_;
  std::size_t n_;
};

/// The rank of a router or balancer, to be chosen, with scores for the ledger.
class Choice {
public:
  Choice(troupe_placement_answer& answer, const Ranks& ranks) : answer_(&answer), ranks_(ranks) {}

  Verdict rank(std::uint32_t rank, std::uint32_t reason) {
    answer_->rank = rank;
    return Verdict::done(reason);
  }

  std::uint32_t chosen() const { return answer_->rank; }

  /// The rank with room that has the lowest score(rank, place), the first one of equals; keeps all
  /// scores. Ranks without room score INT64_MAX.
  template <class Score>
  Verdict lowest(const RequestView& request, const Score& score) {
    std::size_t best = ranks_.size();
    std::size_t candidates = 0;
    std::int64_t best_score = 0;
    bool tied = false;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const bool room = troupe_has_room(&request, &ranks_[i]) != 0;
      const std::int64_t value =
          room ? score(ranks_[i], i) : std::numeric_limits<std::int64_t>::max();
      if (answer_->scores != nullptr) answer_->scores[i] = value;
      if (!room) continue;
      ++candidates;
      const bool better = candidates == 1 || value < best_score;
      tied = !better && (tied || value == best_score);
      if (!better) continue;
      best = i;
      best_score = value;
    }
    if (best == ranks_.size()) return Verdict::none(TROUPE_REASON_NO_ROOM);
    answer_->scored = answer_->scores != nullptr ? 1 : 0;
    const std::uint32_t reason = candidates == 1 ? TROUPE_REASON_ONLY_CHOICE
                                 : tied          ? TROUPE_REASON_TIE_LOWEST_ID
                                                 : TROUPE_REASON_LOWEST_SCORE;
    return rank(ranks_[best].rank, reason);
  }

private:
  troupe_placement_answer* answer_;
  Ranks ranks_;
};

/// Shares of candidates in a step, to be filled from the front.
class Shares {
public:
  Shares(troupe_share* shares, std::size_t& n, std::size_t most)
      : shares_(shares), n_(&n), most_(most) {
    n = 0;
  }

  std::size_t size() const { return *n_; }
  /// Each candidate once; what does not fit is left out. @pre tokens >= 1
  void add(std::size_t candidate, std::int64_t tokens) {
    if (*n_ < most_) shares_[(*n_)++] = {static_cast<std::uint32_t>(candidate), 0, tokens};
  }

private:
  troupe_share* shares_;
  std::size_t* n_;
  std::size_t most_;
};

// -- Kinds: derive from one of these --

/// What every kind may keep from one instance to the next.
class Policy {
public:
  virtual ~Policy() = default;
  /// All that later answers depend on besides options and questions.
  virtual std::string export_state() const { return {}; }
  /// Takes over such a state, or returns false and stays as fresh as it is.
  virtual bool import_state(std::string_view state) { return state.empty(); }
};

/// Stable kind: who goes first.
class Queue : public Policy {
public:
  using Table = troupe_queue;
  static constexpr const char* kKind = "queue";

  /// Fills `order` with a permutation of the places of `waiting`; returns the reason.
  virtual std::uint32_t order(const Requests& waiting, const Call& call, Order& order) = 0;
  /// What became of a request; event: TROUPE_QUEUE_*.
  virtual void observe(const RequestView& /*request*/, std::uint32_t /*event*/,
                       const Call& /*call*/) {}
};

/// Stable kind: the rank that prefills a request.
class PrefillRouter : public Policy {
public:
  using Table = troupe_prefill_router;
  static constexpr const char* kKind = "prefill_router";

  struct Question {
    const RequestView& request;
    Ranks ranks;
    const std::int64_t* local_hit_tokens; ///< [ranks] or null.

    std::int64_t local_hit(std::size_t place) const {
      return local_hit_tokens == nullptr ? 0 : local_hit_tokens[place];
    }
  };
  virtual Verdict route(const Question& question, const Call& call, Choice& choice) = 0;
};

/// Stable kind: the rank that holds a request's KV until it ends.
class DecodeBalancer : public Policy {
public:
  using Table = troupe_decode_balancer;
  static constexpr const char* kKind = "decode_balancer";

  struct Question {
    const RequestView& request;
    Ranks ranks;
    std::uint32_t source_rank;
    std::uint32_t source_incarnation;
  };
  virtual Verdict place(const Question& question, const Call& call, Choice& choice) = 0;
};

/// Stable kind: the slices of one rank's next step.
class PrefillChunker : public Policy {
public:
  using Table = troupe_prefill_chunker;
  static constexpr const char* kKind = "prefill_chunker";

  struct Question {
    Requests requests; ///< Next one first.
    std::int64_t step_tokens_max;
    std::uint32_t rank;
  };
  virtual Verdict pack(const Question& question, const Call& call, Shares& shares) = 0;
  /// What one full step takes at most; depends on options and arguments only.
  virtual std::int64_t step_budget_ps(const CostModel& model, const troupe_host& host,
                                      std::int64_t step_tokens_max) const {
    const std::int64_t work_ps = host.marginal_ps(&model, step_tokens_max, 0);
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    return work_ps > kMost - model.step_ps ? kMost : work_ps + model.step_ps;
  }
};

/// Experimental kind: whether a request enters the system.
class Admission : public Policy {
public:
  using Table = troupe_admission;
  static constexpr const char* kKind = "admission";

  struct Answer {
    bool admit;
    std::uint32_t reason;
  };
  virtual Answer admit(const RequestView& request, const LoadView& load, const Call& call) = 0;
};

/// Experimental kind: when a finished prefill moves.
class Handoff : public Policy {
public:
  using Table = troupe_handoff;
  static constexpr const char* kKind = "handoff";

  /// Verdict::done moves it now.
  virtual Verdict plan(const troupe_handoff_question& question, const Call& call) = 0;
};

/// Experimental kind: what runs together in one engine step.
class Step : public Policy {
public:
  using Table = troupe_step;
  static constexpr const char* kKind = "step";

  struct Question {
    Views<SliceView> slices;
    Views<DecodeView> decodes;
    std::int64_t step_tokens_max;
  };
  /// Puts the places of sequences that get a token into `decodes`, which is empty, and shares of
  /// the offered slices into `slices`; returns the reason.
  virtual std::uint32_t compose(const Question& question, const Call& call,
                                std::vector<std::uint32_t>& decodes, Shares& slices) = 0;
};

/// Experimental kind: whether a rank plans its next step while one is computed.
class Overlap : public Policy {
public:
  using Table = troupe_overlap;
  static constexpr const char* kKind = "overlap";

  struct Answer {
    bool plan_now;
    std::uint32_t reason;
    std::int64_t arrival_tokens = 1;
    bool masks_under_verify = false;
  };
  virtual Answer plan(const OverlapView& view, const Call& call) = 0;
};

} // namespace troupe::sdk

#include "schedulers/plugin/troupe_policy_tables.hpp"

/// Exports the library's policies: TROUPE_PLUGIN("name", "1.0.0", troupe::sdk::policy<Mine>(...)).
/// Once in a library, outside of any namespace.
#define TROUPE_PLUGIN(plugin_name, plugin_version, ...)                                            \
  extern "C" TROUPE_PLUGIN_EXPORT const troupe_plugin* troupe_plugin_entry(                        \
      std::uint32_t host_abi_major) {                                                              \
    static const troupe_policy policies[] = {__VA_ARGS__};                                         \
    static const troupe_plugin plugin = {                                                          \
        sizeof(troupe_plugin),                                                                     \
        TROUPE_ABI_MAJOR,                                                                          \
        TROUPE_ABI_MINOR,                                                                          \
        static_cast<std::uint32_t>(sizeof(policies) / sizeof(policies[0])),                        \
        plugin_name,                                                                               \
        plugin_version,                                                                            \
        policies};                                                                                 \
    return host_abi_major == TROUPE_ABI_MAJOR ? &plugin : nullptr;                                 \
  }                                                                                                \
  static_assert(true, "takes the semicolon")
