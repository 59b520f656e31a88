// Shadow policies beside a job on real threads: they see a sample when they are slow, and the job
// does not wait for them.

#include "schedulers/policy/decode_balancer.hpp"
#include "schedulers/registry/kept_kinds.hpp"
#include "tests/support/live_system.hpp"
#include "tests/support/swapper.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <thread>

namespace troupe::test {
namespace {

/// Sleeps, then takes the last rank.
class Sleeper final : public sched::DecodeBalancer {
public:
  sched::Decision<sched::Placement> place(const sched::PlacementQuery&,
                                          std::span<const sched::RankView> ranks,
                                          const sched::PolicyContext&) noexcept override {
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
    return {sched::Placement{ranks.back().rank.rank, {}}, sched::Reason::only_choice};
  }
};

std::shared_ptr<const sched::PolicyRegistry> with_sleeper() {
  auto registry = std::make_shared<sched::PolicyRegistry>();
  sched::register_builtin_policies(*registry);
  registry->add("decode_balancer", "sleeper",
                [](OptionTable) -> Result<std::unique_ptr<sched::Policy>> {
                  return std::unique_ptr<sched::Policy>(std::make_unique<Sleeper>());
                });
  return registry;
}

/// A run of 3,000 lines on null devices with this shadow, and how long it took.
std::pair<LiveRun, double> run_with(const std::map<std::string, std::string>& shadow) {
  app::SystemConfig config;
  config.model.path = std::string(TROUPE_SOURCE_DIR) + "/examples/models/nano-v4.1";
  config.kv.memory_bytes = 8LL << 20;
  for (app::RankGroupConfig& group : config.ranks) {
    group.device = "null";
    group.count = 2;
  }
  std::vector<Request> requests;
  for (int i = 0; i < 3000; ++i) {
    requests.emplace_back(
        text::Endpoint::completions,
        fmt::format(R"({{"prompt":[{},21,22],"max_tokens":{},"ignore_eos":true}})", 30 + i % 100,
                    2 + i % 15));
  }
  LiveOptions options;
  options.registry = with_sleeper();
  options.policies.name = "with shadow";
  for (const auto& [kind, policy] : shadow)
    options.policies.shadow[kind].policy = policy;
  const auto begin = std::chrono::steady_clock::now();
  LiveRun run = run_live(config, requests, options);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_TRUE(run.state.complete) << run.state.message;
  EXPECT_EQ(run.failed, 0);
  return {std::move(run), took.count()};
}

TEST(LiveShadow, ASleepingOneDropsAndDoesNotSlowTheJob) {
  run_with({}); // The first run also reads files.
  const auto [calm, calm_s] = run_with({});
  const auto [run, s] = run_with({{"decode_balancer", "sleeper"}});
  const actors::ShadowTotals totals = run.policies.shadow.at("decode_balancer");
  std::cout << fmt::format(
      "{:.2f} s without, {:.2f} s with a sleeping shadow, ratio {:.2f}; it was "
      "asked {} times, {} were dropped\n",
      calm_s, s, s / calm_s, totals.decisions, totals.dropped);
  EXPECT_EQ(run.answers, calm.answers);
  EXPECT_GT(totals.dropped, 1000);
  // Each of 3,000 placements would take 10 ms.
  EXPECT_LT(s, 30.0);
}

TEST(LiveShadow, TheSamePoliciesNeverDisagreeWhateverIsDropped) {
  sched::PolicyRegistry registry;
  sched::register_builtin_policies(registry);
  std::map<std::string, std::string> all;
  for (const std::string& kind : registry.kinds()) {
    if (sched::keeps_questions(kind)) all[kind] = registry.default_name(kind);
  }
  const auto [run, s] = run_with(all);
  for (const auto& [kind, totals] : run.policies.shadow) {
    std::cout << fmt::format("{}: {} asked, {} dropped\n", kind, totals.decisions, totals.dropped);
    EXPECT_EQ(totals.disagreed, 0) << kind;
    EXPECT_EQ(totals.failed, 0) << kind;
    // A plan of experts is due once a minute.
    if (kind != "expert_placement") {
      EXPECT_GT(totals.decisions + totals.dropped, 0) << kind;
    }
  }
  EXPECT_EQ(run.policies.shadow.size(), all.size());
}

} // namespace
} // namespace troupe::test
