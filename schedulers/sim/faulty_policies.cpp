#include "schedulers/sim/faulty_policies.hpp"

#include "schedulers/core/check.hpp"
#include "schedulers/policy/admission_policy.hpp"
#include "schedulers/policy/decode_balancer.hpp"
#include "schedulers/policy/expert_placement.hpp"
#include "schedulers/policy/handoff_policy.hpp"
#include "schedulers/policy/overlap_policy.hpp"
#include "schedulers/policy/prefill_chunker.hpp"
#include "schedulers/policy/prefill_router.hpp"
#include "schedulers/policy/queue_policy.hpp"
#include "schedulers/policy/step_policy.hpp"
#include "schedulers/sim/range.hpp"

#include <memory>
#include <utility>

namespace troupe::sim {

using namespace sched;

namespace {

constexpr const char* kName = "faulty";

/// The wrapped policy, and when to break its answers.
template <class Kind>
class Faulty : public Kind {
public:
  Faulty(std::unique_ptr<Policy> inner, std::int64_t permille, std::uint64_t seed)
      : inner_(dynamic_cast<Kind*>(inner.release())), permille_(permille), rng_(seed) {
    TROUPE_CHECK(inner_ != nullptr, "a policy is registered under its own kind");
  }

protected:
  Kind& inner() noexcept { return *inner_; }
  const Kind& inner() const noexcept { return *inner_; }
  bool breaks() { return chance(permille_, rng_); }
  std::uint64_t which(std::uint64_t ways) { return rng_.below(ways); }

private:
  std::unique_ptr<Kind> inner_;
  std::int64_t permille_;
  Rng rng_;
};

struct FaultyAdmission : Faulty<AdmissionPolicy> {
  using Faulty::Faulty;
  Decision<Admission> admit(const RequestView& request, const LoadView& load,
                            const PolicyContext& ctx) noexcept override {
    auto answer = inner().admit(request, load, ctx);
    if (!breaks()) return answer;
    if (which(2) == 0) answer.value.reset();
    answer.reason = Reason::unset;
    return answer;
  }
};

struct FaultyQueue : Faulty<QueuePolicy> {
  using Faulty::Faulty;
  Decision<Order> order(std::span<const RequestView> waiting,
                        const PolicyContext& ctx) noexcept override {
    auto answer = inner().order(waiting, ctx);
    if (!breaks() || !answer.value || answer.value->positions.empty()) return answer;
    std::vector<std::uint32_t>& positions = answer.value->positions;
    switch (which(3)) {
    case 0:
      positions.front() = static_cast<std::uint32_t>(waiting.size());
      break;
    case 1:
      positions.push_back(positions.front());
      break;
    default:
      positions.pop_back();
    }
    return answer;
  }
  void observe(const RequestView& request, QueueEvent event,
               const PolicyContext& ctx) noexcept override {
    inner().observe(request, event, ctx);
  }
};

/// Breaks a placement: a rank that does not exist, one that may have no room, or no reason.
template <class Random>
void break_placement(Decision<Placement>& answer, std::span<const RankView> ranks, Random random) {
  switch (random(3)) {
  case 0:
    answer.value = Placement{RankId{4'000'000}, {}};
    break;
  case 1:
    answer.value = Placement{ranks[random(ranks.size())].rank.rank, {}};
    break;
  default:
    answer.reason = Reason::unset;
  }
}

struct FaultyRouter : Faulty<PrefillRouter> {
  using Faulty::Faulty;
  Decision<Placement> route(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override {
    auto answer = inner().route(query, ranks, ctx);
    if (breaks()) break_placement(answer, ranks, [this](std::uint64_t n) { return which(n); });
    return answer;
  }
};

struct FaultyBalancer : Faulty<DecodeBalancer> {
  using Faulty::Faulty;
  Decision<Placement> place(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override {
    auto answer = inner().place(query, ranks, ctx);
    if (breaks()) break_placement(answer, ranks, [this](std::uint64_t n) { return which(n); });
    return answer;
  }
};

struct FaultyChunker : Faulty<PrefillChunker> {
  using Faulty::Faulty;
  Decision<Slices> pack(const PackQuery& query, std::span<const RequestView> requests,
                        const PolicyContext& ctx) noexcept override {
    auto answer = inner().pack(query, requests, ctx);
    if (!breaks() || !answer.value || answer.value->shares.empty()) return answer;
    std::vector<Share>& shares = answer.value->shares;
    switch (which(4)) {
    case 0:
      shares.front().tokens = requests[shares.front().candidate].remaining() + 1;
      break;
    case 1:
      shares.front().tokens = 0;
      break;
    case 2:
      shares.push_back(shares.front());
      break;
    default:
      shares.front().candidate = static_cast<std::uint32_t>(requests.size());
    }
    return answer;
  }
  std::int64_t step_budget_ps(const CostModel& model,
                              std::int64_t step_tokens_max) const noexcept override {
    return inner().step_budget_ps(model, step_tokens_max);
  }
};

struct FaultyHandoff : Faulty<HandoffPolicy> {
  using Faulty::Faulty;
  Decision<HandoffPlan> plan(const HandoffQuery& query,
                             const PolicyContext& ctx) noexcept override {
    auto answer = inner().plan(query, ctx);
    if (breaks()) answer.reason = Reason::unset;
    return answer;
  }
};

struct FaultyStep : Faulty<StepPolicy> {
  using Faulty::Faulty;
  Decision<StepDecision> compose(const StepQuery& query,
                                 const PolicyContext& ctx) noexcept override {
    auto answer = inner().compose(query, ctx);
    if (!breaks() || !answer.value) return answer;
    StepDecision& step = *answer.value;
    switch (which(3)) {
    case 0:
      step.decodes.push_back(static_cast<std::uint32_t>(query.decodes.size()));
      break;
    case 1:
      if (!step.slices.empty()) ++step.slices.front().tokens; // May be a legal answer.
      break;
    default:
      step.decodes.clear();
      step.slices.clear();
    }
    return answer;
  }
};

struct FaultyOverlap : Faulty<OverlapPolicy> {
  using Faulty::Faulty;
  Decision<OverlapPlan> plan(const OverlapView& view, const PolicyContext& ctx) noexcept override {
    auto answer = inner().plan(view, ctx);
    if (!breaks()) return answer;
    switch (which(3)) {
    case 0:
      answer.value.reset();
      break;
    case 1:
      if (answer.value) answer.value->plan_now = true; // Wrong where blocks are short.
      break;
    default:
      answer.reason = Reason::unset;
    }
    return answer;
  }
};

struct FaultyExperts : Faulty<ExpertPlacement> {
  using Faulty::Faulty;
  Decision<ExpertLayout> plan(const ExpertQuery& query,
                              const PolicyContext& ctx) noexcept override {
    auto answer = inner().plan(query, ctx);
    if (!breaks() || !answer.value) return answer;
    if (which(2) == 0)
      ++answer.value->moves;
    else
      answer.reason = Reason::unset;
    return answer;
  }
};

template <class Wrapper>
void wrap(const char* kind, const PolicySet& set, PolicySet& out, PolicyRegistry& registry,
          std::int64_t permille, std::uint64_t seed) {
  registry.add(kind, kName, [=, &registry](const OptionTable&) -> Result<std::unique_ptr<Policy>> {
    auto inner = registry.build(kind, set);
    if (!inner.ok()) return inner.error();
    return std::unique_ptr<Policy>(std::make_unique<Wrapper>(std::move(*inner), permille, seed));
  });
  out.kinds[kind].policy = kName;
}

} // namespace

PolicySet make_faulty(const PolicySet& set, PolicyRegistry& registry, std::int64_t permille,
                      std::uint64_t seed) {
  PolicySet out = set;
  std::uint64_t number = 0;
  const auto next_seed = [&] { return draw(seed, ++number, Purpose::policy); };
  wrap<FaultyAdmission>("admission", set, out, registry, permille, next_seed());
  wrap<FaultyQueue>("queue", set, out, registry, permille, next_seed());
  wrap<FaultyRouter>("prefill_router", set, out, registry, permille, next_seed());
  wrap<FaultyChunker>("prefill_chunker", set, out, registry, permille, next_seed());
  wrap<FaultyHandoff>("handoff", set, out, registry, permille, next_seed());
  wrap<FaultyBalancer>("decode_balancer", set, out, registry, permille, next_seed());
  wrap<FaultyStep>("step", set, out, registry, permille, next_seed());
  wrap<FaultyOverlap>("overlap", set, out, registry, permille, next_seed());
  wrap<FaultyExperts>("expert_placement", set, out, registry, permille, next_seed());
  return out;
}

} // namespace troupe::sim
