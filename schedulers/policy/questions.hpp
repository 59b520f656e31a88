// Everything a policy is asked with, as one value: a question can be asked again, of another
// instance, in another process, a year later.
//
// A stage asks, the ledger keeps, shadow policies and replay ask again. Views here are the very
// structs the policies see.

#pragma once

#include "schedulers/core/result.hpp"
#include "schedulers/policy/admission_policy.hpp"
#include "schedulers/policy/decode_balancer.hpp"
#include "schedulers/policy/expert_placement.hpp"
#include "schedulers/policy/handoff_policy.hpp"
#include "schedulers/policy/overlap_policy.hpp"
#include "schedulers/policy/prefill_chunker.hpp"
#include "schedulers/policy/prefill_router.hpp"
#include "schedulers/policy/queue_policy.hpp"
#include "schedulers/policy/step_policy.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe::sched {

/// PolicyContext as plain values. Each question has a random stream of its own.
struct QuestionContext {
  std::int64_t now_us = 0;
  std::uint64_t seed = 0; ///< Of the generator the policy gets.
  PolicyEpoch epoch{};
  CostModel cost_model;
  std::int64_t step_budget_ps = 0;
  std::int64_t block_tokens = 64;
  bool operator==(const QuestionContext&) const = default;
};

/// As a policy sees it; valid while both arguments live.
PolicyContext policy_context(const QuestionContext& context, Rng& rng) noexcept;

// Each question names its kind, says how it is put to a policy, what an answer must fulfil, and
// whose session it is about (0 = nobody's: such a kind has no canary).

struct AdmissionQuestion {
  using Kind = AdmissionPolicy;
  using Answer = Admission;
  static constexpr std::string_view kKind = "admission";

  QuestionContext context;
  RequestView request;
  LoadView load;

  Decision<Answer> ask(Kind& policy, const PolicyContext& ctx) const noexcept;
  Status check(const Decision<Answer>& answer) const;
  std::uint64_t session_hash() const noexcept { return request.session_hash; }
  bool operator==(const AdmissionQuestion&) const = default;
};

struct QueueQuestion {
  using Kind = QueuePolicy;
  using Answer = Order;
  static constexpr std::string_view kKind = "queue";

  QuestionContext context;
  std::vector<RequestView> waiting;

  Decision<Answer> ask(Kind& policy, const PolicyContext& ctx) const noexcept;
  Status check(const Decision<Answer>& answer) const;
  static std::uint64_t session_hash() noexcept { return 0; }
  bool operator==(const QueueQuestion&) const = default;
};

struct RouterQuestion {
  using Kind = PrefillRouter;
  using Answer = Placement;
  static constexpr std::string_view kKind = "prefill_router";

  QuestionContext context;
  RequestView request;
  std::vector<RankView> ranks;
  std::vector<std::int64_t> local_hit_tokens; ///< [ranks] or empty.

  PlacementQuery query() const noexcept { return {request, {}, local_hit_tokens}; }
  Decision<Answer> ask(Kind& policy, const PolicyContext& ctx) const noexcept;
  Status check(const Decision<Answer>& answer) const;
  std::uint64_t session_hash() const noexcept { return request.session_hash; }
  bool operator==(const RouterQuestion&) const = default;
};

struct ChunkerQuestion {
  using Kind = PrefillChunker;
  using Answer = Slices;
  static constexpr std::string_view kKind = "prefill_chunker";

  QuestionContext context;
  PackQuery query;
  std::vector<RequestView> requests;

  Decision<Answer> ask(Kind& policy, const PolicyContext& ctx) const noexcept;
  Status check(const Decision<Answer>& answer) const;
  static std::uint64_t session_hash() noexcept { return 0; }
  bool operator==(const ChunkerQuestion&) const = default;
};

struct HandoffQuestion {
  using Kind = HandoffPolicy;
  using Answer = HandoffPlan;
  static constexpr std::string_view kKind = "handoff";

  QuestionContext context;
  HandoffQuery query;

  Decision<Answer> ask(Kind& policy, const PolicyContext& ctx) const noexcept;
  Status check(const Decision<Answer>& answer) const;
  std::uint64_t session_hash() const noexcept { return query.request.session_hash; }
  bool operator==(const HandoffQuestion&) const = default;
};

struct BalancerQuestion {
  using Kind = DecodeBalancer;
  using Answer = Placement;
  static constexpr std::string_view kKind = "decode_balancer";

  QuestionContext context;
  RequestView request;
  RankRef source;
  std::vector<RankView> ranks;

  PlacementQuery query() const noexcept { return {request, source, {}}; }
  Decision<Answer> ask(Kind& policy, const PolicyContext& ctx) const noexcept;
  Status check(const Decision<Answer>& answer) const;
  std::uint64_t session_hash() const noexcept { return request.session_hash; }
  bool operator==(const BalancerQuestion&) const = default;
};

struct StepQuestion {
  using Kind = StepPolicy;
  using Answer = StepDecision;
  static constexpr std::string_view kKind = "step";

  QuestionContext context;
  std::vector<OfferedSlice> slices;
  std::vector<DecodeView> decodes;
  std::int64_t step_tokens_max = 1;

  StepQuery query() const noexcept { return {slices, decodes, step_tokens_max}; }
  Decision<Answer> ask(Kind& policy, const PolicyContext& ctx) const noexcept;
  Status check(const Decision<Answer>& answer) const;
  static std::uint64_t session_hash() noexcept { return 0; }
  bool operator==(const StepQuestion&) const = default;
};

struct OverlapQuestion {
  using Kind = OverlapPolicy;
  using Answer = OverlapPlan;
  static constexpr std::string_view kKind = "overlap";

  QuestionContext context;
  OverlapView view;

  Decision<Answer> ask(Kind& policy, const PolicyContext& ctx) const noexcept;
  Status check(const Decision<Answer>& answer) const;
  static std::uint64_t session_hash() noexcept { return 0; }
  bool operator==(const OverlapQuestion&) const = default;
};

/// ExpertLayerView with its values.
struct ExpertLayer {
  std::vector<std::int64_t> loads;   ///< [experts], or empty: some of them are not known.
  std::vector<std::int64_t> steps;   ///< [rounds, experts] or empty.
  std::vector<std::int32_t> current; ///< [slots] or empty.
  bool operator==(const ExpertLayer&) const = default;
};

/// Megabytes on a large model: see may_be_kept().
struct ExpertQuestion {
  using Kind = ExpertPlacement;
  using Answer = ExpertLayout;
  static constexpr std::string_view kKind = "expert_placement";

  QuestionContext context;
  ExpertTopology topology;
  std::int64_t moves_max = 0;
  ExpertMoveCosts costs;
  std::vector<ExpertLayer> layers;

  /// Of its integers.
  std::size_t bytes() const noexcept;
  Decision<Answer> ask(Kind& policy, const PolicyContext& ctx) const noexcept;
  Status check(const Decision<Answer>& answer) const;
  static std::uint64_t session_hash() noexcept { return 0; }
  bool operator==(const ExpertQuestion&) const = default;
};

/// A question that says its size is recorded up to so many bytes; a larger one is not, and neither
/// is its answer.
inline constexpr std::size_t kQuestionBytesMax = 256 << 10;

template <class Question>
bool may_be_kept(const Question& question) noexcept {
  if constexpr (requires { question.bytes(); }) return question.bytes() <= kQuestionBytesMax;
  return true;
}

/// Puts `question` to `policy` with a context made from the question's own values.
template <class Question>
Decision<typename Question::Answer> ask(typename Question::Kind& policy,
                                        const Question& question) noexcept {
  Rng rng(question.context.seed);
  return question.ask(policy, policy_context(question.context, rng));
}

/// A question, the answer that counted, and the state of whoever gave it.
template <class Question>
struct AskedOf {
  Question question;
  Decision<typename Question::Answer> answer;
  std::string policy; ///< Registered name of who answered; the default's after an invalid answer.
  bool canary = false;
  bool has_state = false; ///< `state` is what the asked instance exported before this question.
  bool gap = false;       ///< Questions before this one were not recorded: `state` is new ground.
  std::string state;
};

template <class Question>
using AskedPtr = std::shared_ptr<const AskedOf<Question>>;

/// One decision of any kind that is recorded with its question; never null inside.
using Asked =
    std::variant<AskedPtr<AdmissionQuestion>, AskedPtr<QueueQuestion>, AskedPtr<RouterQuestion>,
                 AskedPtr<ChunkerQuestion>, AskedPtr<HandoffQuestion>, AskedPtr<BalancerQuestion>,
                 AskedPtr<StepQuestion>, AskedPtr<OverlapQuestion>, AskedPtr<ExpertQuestion>>;

/// What a queue policy learned of a request, in order with the questions of its stage.
struct QueueObservation {
  QuestionContext context;
  RequestView request;
  QueueEvent event = QueueEvent::entered;
  bool operator==(const QueueObservation&) const = default;
};

void observe(QueuePolicy& policy, const QueueObservation& seen) noexcept;

} // namespace troupe::sched
