// The suite that loadable policies must pass, on the built-in ones, and on policies that break one
// rule each: the suite must find them.

#include "schedulers/conformance/question_source.hpp"
#include "schedulers/conformance/suite.hpp"
#include "schedulers/model/queue_estimate.hpp"
#include "schedulers/registry/kept_kinds.hpp"
#include "schedulers/registry/policy_registry.hpp"
#include "tests/support/effort.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe::sched::conformance {
namespace {

struct Ran {
  bool ok = false;
  std::vector<std::string> begun;
  std::map<std::string, Finding> findings;

  std::string failed() const {
    std::string all;
    for (const auto& [name, finding] : findings) {
      if (!finding.ok) all += (all.empty() ? "" : " ") + name;
    }
    return all;
  }
  std::string details() const {
    std::string all;
    for (const auto& [name, finding] : findings)
      all += name + ": " + finding.detail + "\n";
    return all;
  }
};

Ran run(const std::string& kind, const Maker& maker, SuiteOptions options = {}) {
  Ran out;
  const Listener listener{
      [&](const std::string& name) { out.begun.push_back(name); },
      [&](const std::string& name, const Finding& finding) { out.findings[name] = finding; }};
  out.ok = run_suite(kind, maker, options, listener);
  return out;
}

template <class P>
Maker maker_of() {
  return []() -> Result<std::unique_ptr<Policy>> { return std::unique_ptr<Policy>(new P); };
}

TEST(ConformanceSuite, EveryBuiltInPolicyOfAKindWithQuestionsPasses) {
  std::printf("seed 1\n");
  PolicyRegistry registry;
  register_builtin_policies(registry);
  SuiteOptions options;
  options.questions = test::times(options.questions);
  options.rounds = test::times(options.rounds);
  int policies = 0;
  for (const std::string& kind : registry.kinds()) {
    if (!keeps_questions(kind)) continue;
    ASSERT_TRUE(has_suite(kind)) << kind;
    for (const std::string& name : registry.names(kind)) {
      SCOPED_TRACE(kind + " " + name);
      const Ran result = run(
          kind,
          [&] {
            return registry.build(kind, PolicySpec{name, OptionTable{}}, {});
          },
          options);
      // Documented: long requests may wait for ever without a bound on waiting.
      EXPECT_EQ(result.failed(), name == "sjf" ? "liveness" : "") << result.details();
      EXPECT_EQ(result.begun.size(), result.findings.size());
      ++policies;
    }
  }
  EXPECT_GE(policies, 30);
}

TEST(ConformanceSuite, ABoundOnWaitingEndsStarvation) {
  PolicyRegistry registry;
  register_builtin_policies(registry);
  const Ran result = run("queue", [&] {
    OptionTable options;
    options.set("wait_bound.max_us", {std::int64_t{10'000'000}, ""});
    return registry.build("queue", PolicySpec{"sjf", options}, {});
  });
  EXPECT_EQ(result.failed(), "") << result.details();
}

/// In order of arrival; those who derive from it break one thing.
class Fcfs : public QueuePolicy {
public:
  Decision<Order> order(std::span<const RequestView> waiting,
                        const PolicyContext& /*ctx*/) noexcept override {
    Order order;
    for (std::uint32_t i = 0; i < waiting.size(); ++i)
      order.positions.push_back(i);
    return {std::move(order), Reason::in_order};
  }
};

struct NewestFirst : Fcfs {
  Decision<Order> order(std::span<const RequestView> waiting,
                        const PolicyContext& ctx) noexcept override {
    auto decision = Fcfs::order(waiting, ctx);
    std::reverse(decision.value->positions.begin(), decision.value->positions.end());
    return decision;
  }
};

struct DropsTheLastOfMany : Fcfs {
  Decision<Order> order(std::span<const RequestView> waiting,
                        const PolicyContext& ctx) noexcept override {
    auto decision = Fcfs::order(waiting, ctx);
    if (waiting.size() > 100) decision.value->positions.pop_back();
    return decision;
  }
};

struct WithoutReason : Fcfs {
  Decision<Order> order(std::span<const RequestView> waiting,
                        const PolicyContext& ctx) noexcept override {
    auto decision = Fcfs::order(waiting, ctx);
    if (waiting.empty()) decision.reason = Reason::unset;
    return decision;
  }
};

struct ByAddress : Fcfs {
  Decision<Order> order(std::span<const RequestView> waiting,
                        const PolicyContext& ctx) noexcept override {
    auto decision = Fcfs::order(waiting, ctx);
    const auto place = reinterpret_cast<std::uintptr_t>(waiting.data());
    const bool turned = (place / 64) % 2 == 0;
    if (turned) std::reverse(decision.value->positions.begin(), decision.value->positions.end());
    return decision;
  }
};

/// Serves from front and back in turn, and exports whose turn it is unless told not to.
template <bool keeps_state>
struct InTurn : Fcfs {
  bool front = true;
  Decision<Order> order(std::span<const RequestView> waiting,
                        const PolicyContext& ctx) noexcept override {
    auto decision = Fcfs::order(waiting, ctx);
    if (!front) std::reverse(decision.value->positions.begin(), decision.value->positions.end());
    front = !front;
    return decision;
  }
  std::string export_state() const override { return keeps_state ? (front ? "f" : "b") : ""; }
  void import_state(const std::string& state) override {
    if (keeps_state && !state.empty()) front = state != "b";
  }
};

/// Takes any bytes for a state.
struct Gullible : InTurn<true> {
  void import_state(const std::string& state) override { front = state == "f"; }
};

/// Falls for numbers at the ends of their range.
struct Overflows : Fcfs {
  Decision<Order> order(std::span<const RequestView> waiting,
                        const PolicyContext& ctx) noexcept override {
    auto decision = Fcfs::order(waiting, ctx);
    for (const RequestView& request : waiting) {
      if (request.work_ps > 1LL << 60) decision.value.reset();
    }
    return decision;
  }
};

struct ForgetsAfterObserving : Fcfs {
  bool seen_leaving = false;
  Decision<Order> order(std::span<const RequestView> waiting,
                        const PolicyContext& ctx) noexcept override {
    return seen_leaving ? Decision<Order>{} : Fcfs::order(waiting, ctx);
  }
  void observe(const RequestView&, QueueEvent event, const PolicyContext&) noexcept override {
    seen_leaving = seen_leaving || event == QueueEvent::left;
  }
};

TEST(ConformanceSuite, FindsWhatBreaksARuleOfQueues) {
  EXPECT_EQ(run("queue", maker_of<Fcfs>()).failed(), "");
  EXPECT_EQ(run("queue", maker_of<NewestFirst>()).failed(), "liveness");
  EXPECT_EQ(run("queue", maker_of<DropsTheLastOfMany>()).failed(), "many");
  EXPECT_EQ(run("queue", maker_of<WithoutReason>()).failed(), "empty");
  EXPECT_NE(run("queue", maker_of<ByAddress>()).failed().find("deterministic"), std::string::npos);
  EXPECT_EQ(run("queue", maker_of<InTurn<true>>()).failed(), "");
  EXPECT_EQ(run("queue", maker_of<InTurn<false>>()).failed(), "state");
  EXPECT_EQ(run("queue", maker_of<Gullible>()).failed(), "foreign_state");
  EXPECT_EQ(run("queue", maker_of<Overflows>()).failed(), "extreme observe");
  EXPECT_EQ(run("queue", maker_of<ForgetsAfterObserving>()).failed(), "observe");
}

/// Never sends anybody anywhere.
struct Refuses : PrefillRouter {
  Decision<Placement> route(const PlacementQuery&, std::span<const RankView>,
                            const PolicyContext&) noexcept override {
    return {std::nullopt, Reason::no_room};
  }
};

struct FirstWithRoom : PrefillRouter {
  Decision<Placement> route(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext&) noexcept override {
    for (const RankView& rank : ranks) {
      if (has_room(query, rank)) return {Placement{rank.rank.rank, {}}, Reason::tie_lowest_id};
    }
    return {std::nullopt, Reason::no_room};
  }
};

struct IgnoresRoom : PrefillRouter {
  Decision<Placement> route(const PlacementQuery&, std::span<const RankView> ranks,
                            const PolicyContext&) noexcept override {
    if (ranks.empty()) return {std::nullopt, Reason::no_rank};
    return {Placement{ranks[0].rank.rank, {}}, Reason::tie_lowest_id};
  }
};

TEST(ConformanceSuite, FindsRoutersThatRefuseForgetOrOverfill) {
  EXPECT_EQ(run("prefill_router", maker_of<Refuses>()).failed(), "liveness");
  EXPECT_NE(run("prefill_router", maker_of<IgnoresRoom>()).failed().find("valid"),
            std::string::npos);
  const Ran first = run("prefill_router", maker_of<FirstWithRoom>());
  EXPECT_TRUE(first.ok) << first.details();
  EXPECT_EQ(first.findings.at("liveness").detail,
            "note: of 8 equal ranks, 1, 2, 3, 4, 5, 6, 7 got none of 1000 requests.");
}

/// Holds each request back for 15 ms after its arrival, and says so or leaves it open.
template <std::int64_t kNamed>
struct Defers : DecodeBalancer {
  Decision<Placement> place(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override {
    const std::int64_t due_us = add_saturated(query.request.arrival_us, 15'000);
    for (const RankView& rank : ranks) {
      if (ctx.now_us >= due_us && has_room(query, rank)) {
        return {Placement{rank.rank.rank, {}}, Reason::tie_lowest_id};
      }
    }
    return {std::nullopt, Reason::held_back, kNamed == 1 ? due_us : kNamed};
  }
};

struct NeverPlaces : DecodeBalancer {
  Decision<Placement> place(const PlacementQuery&, std::span<const RankView>,
                            const PolicyContext&) noexcept override {
    return {std::nullopt, Reason::held_back, std::numeric_limits<std::int64_t>::max()};
  }
};

TEST(ConformanceSuite, FindsBalancersThatHoldBackForEverOrNameNoTime) {
  constexpr std::int64_t kEver = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(run("decode_balancer", maker_of<NeverPlaces>()).failed(), "liveness");
  EXPECT_EQ(run("decode_balancer", maker_of<Defers<1>>()).failed(), "");
  EXPECT_EQ(run("decode_balancer", maker_of<Defers<0>>()).failed(), "liveness");
  EXPECT_EQ(run("decode_balancer", maker_of<Defers<kEver>>()).failed(), "");
  EXPECT_EQ(run("decode_balancer", maker_of<Defers<-1>>()).failed(), "");
}

/// Cuts nothing but the first prompt.
struct OnlyTheLongest : PrefillChunker {
  Decision<Slices> pack(const PackQuery&, std::span<const RequestView> requests,
                        const PolicyContext&) noexcept override {
    if (requests.empty()) return {std::nullopt, Reason::nothing_to_do};
    if (requests.size() < 4) return {std::nullopt, Reason::held_back};
    return {Slices{{{0, 1}}}, Reason::budget_reached};
  }
  std::int64_t step_budget_ps(const CostModel&, std::int64_t tokens) const noexcept override {
    return tokens > 600 ? -1 : 1;
  }
};

TEST(ConformanceSuite, FindsAChunkerThatStandsStillAndANegativeBudget) {
  EXPECT_EQ(run("prefill_chunker", maker_of<OnlyTheLongest>()).failed(), "liveness step_budget");
}

TEST(ConformanceSuite, ACreateThatFailsIsReportedAndNothingElseIsAsked) {
  const Ran failed = run("queue", []() -> Result<std::unique_ptr<Policy>> {
    return {ErrorCode::bad_argument, "create: no memory"};
  });
  EXPECT_FALSE(failed.ok);
  EXPECT_EQ(failed.begun, std::vector<std::string>{"create"});
  EXPECT_EQ(failed.findings.at("create").detail, "create: no memory");
  const Ran other = run("queue", maker_of<Refuses>());
  EXPECT_EQ(other.failed(), "create");
}

TEST(ConformanceSuite, SlowCallsAreFoundByTheGivenClock) {
  std::int64_t now_us = 0;
  SuiteOptions options;
  options.decide_us = 1'000;
  options.now_us = [&] { return now_us += 700; };
  const Ran quick = run("queue", maker_of<Fcfs>(), options);
  EXPECT_TRUE(quick.ok);
  EXPECT_EQ(quick.findings.at("within_deadline").detail,
            "the slowest of 100 questions took 700 us of 1000.");
  options.now_us = [&] { return now_us += 1'001; };
  const Ran slow = run("queue", maker_of<Fcfs>(), options);
  EXPECT_EQ(slow.failed(), "within_deadline");
  EXPECT_EQ(slow.begun.back(), "within_deadline") << "too slow to ask more";
}

TEST(QuestionSource, TheSameSeedGivesTheSameQuestionsInEverySituation) {
  for (const Situation situation : {Situation::ordinary, Situation::empty, Situation::single,
                                    Situation::many, Situation::extreme}) {
    Rng one(7);
    Rng two(7);
    for (std::uint64_t i = 0; i < 20; ++i) {
      const auto a = draw_question<RouterQuestion>(situation, one, i);
      const auto b = draw_question<RouterQuestion>(situation, two, i);
      EXPECT_EQ(a.ranks, b.ranks);
      EXPECT_EQ(a.request, b.request);
      EXPECT_EQ(a.ranks.empty(), situation == Situation::empty);
      EXPECT_GE(a.request.remaining(), 1);
    }
  }
}

} // namespace
} // namespace troupe::sched::conformance
