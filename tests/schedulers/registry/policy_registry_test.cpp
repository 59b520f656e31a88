// Names of kinds and policies are checked with helpful errors; every built-in builds.

#include "schedulers/registry/kept_kinds.hpp"
#include "schedulers/registry/policy_registry.hpp"

#include <gtest/gtest.h>

namespace troupe::sched {
namespace {

PolicyRegistry builtins() {
  PolicyRegistry registry;
  register_builtin_policies(registry);
  return registry;
}

PolicySet set_of(const std::string& kind, const std::string& policy) {
  PolicySet set;
  set.kinds[kind].policy = policy;
  return set;
}

TEST(PolicyRegistry, EveryKindHasADefaultAndBuildsAllItsPolicies) {
  const PolicyRegistry registry = builtins();
  const std::set<std::string> kinds = {
      "admission",       "queue", "prefill_router", "prefill_chunker", "handoff",
      "decode_balancer", "step",  "overlap",        "expert_placement"};
  EXPECT_EQ(registry.kinds(), kinds);
  for (const std::string& kind : kinds) {
    EXPECT_GE(registry.names(kind).size(), 2U) << kind;
    EXPECT_NE(registry.build_default(kind), nullptr);
    for (const std::string& name : registry.names(kind)) {
      EXPECT_TRUE(registry.check(set_of(kind, name)).ok()) << kind << " " << name;
    }
  }
  EXPECT_EQ(registry.default_name("admission"), "by_cost");
  EXPECT_EQ(registry.default_name("queue"), "fcfs");
  EXPECT_EQ(registry.default_name("prefill_chunker"), "time_budget");
  EXPECT_EQ(registry.default_name("prefill_router"), "least_work");
  EXPECT_EQ(registry.default_name("handoff"), "whole");
  EXPECT_EQ(registry.default_name("decode_balancer"), "count_and_kv");
  EXPECT_EQ(registry.default_name("step"), "decode_first");
  EXPECT_EQ(registry.default_name("overlap"), "serial");
  EXPECT_EQ(registry.default_name("expert_placement"), "incremental");
}

TEST(PolicyRegistry, KindsWithoutAStageBuildButCannotBeNamedInAPolicyFile) {
  const PolicyRegistry registry = builtins();
  const std::set<std::string> kinds = {"draft_length", "retention", "vision_balancer"};
  EXPECT_EQ(registry.kinds_without_stage(), kinds);
  for (const std::string& kind : kinds) {
    EXPECT_GE(registry.names(kind).size(), 2U) << kind;
    EXPECT_NE(registry.build_default(kind), nullptr);
    for (const std::string& name : registry.names(kind)) {
      EXPECT_TRUE(registry.build(kind, set_of(kind, name)).ok()) << kind << " " << name;
      EXPECT_EQ(registry.check(set_of(kind, name)).error().code, ErrorCode::unknown_key) << kind;
    }
  }
  EXPECT_EQ(registry.default_name("draft_length"), "by_load");
  EXPECT_EQ(registry.default_name("retention"), "by_class");
  EXPECT_EQ(registry.default_name("vision_balancer"), "least_cost");
}

TEST(PolicyRegistry, AShadowNeedsAKindThatKeepsItsQuestions) {
  const PolicyRegistry registry = builtins();
  for (const std::string& kind : registry.kinds()) {
    PolicySet set;
    set.shadow[kind].policy = registry.default_name(kind);
    EXPECT_TRUE(registry.check(set).ok()) << kind;
    EXPECT_TRUE(keeps_questions(kind)) << kind;
  }
  EXPECT_FALSE(keeps_questions("draft_length")) << "no stage asks it";
}

TEST(PolicyRegistry, UnknownKindNamesTheNearest) {
  const Status status = builtins().check(set_of("prefill_ruoter", "least_work"));
  EXPECT_EQ(status.error().code, ErrorCode::unknown_key);
  EXPECT_NE(status.error().message.find("prefill_ruoter"), std::string::npos);
  EXPECT_NE(status.error().message.find("did you mean \"prefill_router\"?"), std::string::npos);
}

TEST(PolicyRegistry, UnknownPolicyNamesTheNearestAndAll) {
  const Status status = builtins().check(set_of("queue", "fcsf"));
  EXPECT_EQ(status.error().message,
            "queue.policy: found \"fcsf\", expected a policy of this kind; "
            "did you mean \"fcfs\"? Valid: bucket fcfs sjf slack weighted_fair");
}

TEST(PolicyRegistry, OptionsAreCheckedWithTheirPlace) {
  PolicySet set = set_of("prefill_chunker", "time_budget");
  set.kinds["prefill_chunker"].options.set("budget_ms", {std::int64_t{5}, "p.toml:8"});
  EXPECT_EQ(builtins().check(set).error().message,
            "p.toml:8: prefill_chunker.budget_ms: unknown key; did you mean \"budget_us\"?");
  set = set_of("queue", "fcfs");
  set.kinds["queue"].options.set("weight", {std::int64_t{5}, "p.toml:2"});
  EXPECT_EQ(builtins().check(set).error().message,
            "p.toml:2: queue.weight: unknown key; valid: wait_bound.max_us");
  set = set_of("handoff", "whole");
  set.kinds["handoff"].options.set("weight", {std::int64_t{5}, "p.toml:2"});
  EXPECT_EQ(builtins().check(set).error().message,
            "p.toml:2: handoff.weight: unknown key; this table takes no options");
  set = set_of("prefill_chunker", "time_budget");
  set.kinds["prefill_chunker"].options.set("budget_us", {std::int64_t{0}, "p.toml:8"});
  EXPECT_EQ(builtins().check(set).error().code, ErrorCode::bad_argument);
}

TEST(PolicyRegistry, WeightsAndTheWaitBoundAreChecked) {
  const auto message = [](const std::string& key, OptionValue value) {
    PolicySet set = set_of("queue", "weighted_fair");
    set.kinds["queue"].options.set(key, std::move(value));
    return builtins().check(set).error().message;
  };
  EXPECT_EQ(message("weights.a", {2.5, "p.toml:4"}), "");
  EXPECT_EQ(message("weights.a", {std::int64_t{0}, "p.toml:4"}),
            "p.toml:4: queue.weights.a: found 0, expected a number from 0.001 to 1000");
  EXPECT_EQ(
      message("weights", {std::int64_t{2}, "p.toml:4"}),
      "p.toml:4: queue.weights: found 2, expected a table of names and numbers, as in { a = 2 }");
  EXPECT_EQ(message("wieghts", {std::int64_t{2}, "p.toml:4"}),
            "p.toml:4: queue.wieghts: unknown key; did you mean \"weights\"?");
  EXPECT_EQ(message("wait_bound.max_us", {std::int64_t{1}, "p.toml:6"}), "");
  EXPECT_EQ(message("wait_bound.max_us", {std::int64_t{0}, "p.toml:6"}),
            "p.toml:6: queue.wait_bound.max_us: found 0, expected a whole number from 1 to "
            "31536000000000");
  EXPECT_EQ(message("wait_bound.max_ms", {std::int64_t{1}, "p.toml:6"}),
            "p.toml:6: queue.wait_bound.max_ms: unknown key; did you mean \"wait_bound.max_us\"?");
}

TEST(PolicyRegistryDeathTest, ADuplicateIsABug) {
  PolicyRegistry registry = builtins();
  EXPECT_DEATH(registry.add("queue", "fcfs", {}), "registered once");
  EXPECT_DEATH(registry.set_default("queue", "nobody"), "registered policy");
  EXPECT_DEATH(registry.set_without_stage("nothing"), "is registered");
}

} // namespace
} // namespace troupe::sched
