// The ledger of a live batch is decided again, byte for byte, for every built-in policy of every
// kind that a stage asks.

#include "actors/ledger_reader.hpp"
#include "actors/ledger_text.hpp"
#include "schedulers/registry/kept_kinds.hpp"
#include "schedulers/replay/replayer.hpp"
#include "tests/actors/app/temporary_folder.hpp"
#include "tests/support/endless_job.hpp"
#include "tests/support/live_system.hpp"
#include "tests/support/rank_groups.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>

namespace troupe::test {
namespace {

const std::string kModel = std::string(TROUPE_SOURCE_DIR) + "/examples/models/nano-v4.1";
constexpr int kRequests = 48;

/// Few slots and little memory: requests queue, reservations are refused, answers are preempted.
app::SystemConfig config() {
  app::SystemConfig out = null_config(2, 2, 1);
  out.model.path = kModel;
  for (app::RankGroupConfig& group : out.ranks)
    group.cost_model.null_speed = 0;
  out.kv.block_tokens = 16;
  out.kv.memory_bytes = 2LL << 10; // About three requests, where no weights are.
  out.kv.reserve_quantile = 0.3;
  out.limits.sequences_max = 4;
  out.limits.request_timeout_s = 600; // So that admission has something to estimate.
  return out;
}

std::vector<Request> requests() {
  std::vector<Request> out;
  for (int i = 0; i < kRequests; ++i) {
    const std::vector<int> prompt(static_cast<std::size_t>(5 + i * 13 % 200), 40 + i);
    out.emplace_back(
        text::Endpoint::completions,
        fmt::format(R"({{"prompt":[{}],"max_tokens":{},"seed":1,"ignore_eos":true,"user":"u{}"}})",
                    fmt::join(prompt, ","), 2 + i * 7 % 90, i % 5));
  }
  return out;
}

struct Replayed {
  sched::ReplayReport report;
  std::map<std::string, std::int64_t> kinds; ///< Records by kind.
  std::set<std::string> policies;            ///< Names in them.
};

/// A job that lasts until plans of experts were asked for, in place of `extra`'s requests.
LiveRun run_until_planned(LiveOptions extra) {
  constexpr std::int64_t kPlans = 4;
  app::SystemConfig often = config();
  often.experts.interval_ms = 5;
  std::shared_ptr<const actors::ExpertFacts> facts;
  std::mutex mutex;
  extra.job = std::make_shared<EndlessJob>([&] {
    const std::lock_guard lock(mutex);
    return facts && facts->counts().asked >= kPlans;
  });
  extra.on_system = [&](app::LocalSystem& system) {
    const std::lock_guard lock(mutex);
    facts = system.actors().experts;
  };
  return run_live(often, {}, extra);
}

Replayed run_and_replay(const sched::PolicySet& set, const std::string& folder,
                        const sched::PolicyRegistry& registry) {
  LiveOptions extra;
  extra.policies = set;
  extra.ledger_directory = folder;
  const LiveRun run = set.kinds.contains("expert_placement")
                          ? run_until_planned(std::move(extra))
                          : run_live(config(), requests(), extra);
  EXPECT_TRUE(run.state.complete);
  EXPECT_EQ(run.failed, 0);
  Replayed out;
  sched::Replayer replayer(registry);
  const auto faults = actors::read_ledger(folder, [&](sched::LedgerEntry&& entry) {
    replayer.feed(entry);
    const auto* record = std::get_if<sched::Record>(&entry.what);
    if (record == nullptr) return;
    ++out.kinds[record->kind];
    out.policies.insert(record->kind + " " + record->policy);
  });
  EXPECT_TRUE(faults.ok() && faults->empty());
  out.report = replayer.report();
  return out;
}

TEST(Replay, TheLedgerOfALiveBatchForEveryBuiltInPolicy) {
  sched::PolicyRegistry registry;
  sched::register_builtin_policies(registry);
  int jobs = 0;
  std::int64_t decisions = 0;
  std::int64_t preemptions = 0;
  for (const std::string& kind : registry.kinds()) {
    if (!sched::keeps_questions(kind)) continue;
    for (const std::string& policy : registry.names(kind)) {
      SCOPED_TRACE(fmt::format("{} {}", kind, policy));
      const app::TemporaryFolder folder;
      sched::PolicySet set;
      set.kinds[kind].policy = policy;
      const Replayed got = run_and_replay(set, folder.path("l"), registry);
      const sched::ReplayReport& report = got.report;
      EXPECT_EQ(report.all.equal, report.all.decisions);
      EXPECT_EQ(report.all.different, 0);
      EXPECT_EQ(report.all.skipped, 0);
      EXPECT_EQ(report.state_differs, 0);
      EXPECT_TRUE(got.policies.contains(fmt::format("{} {}", kind, policy)));
      for (const sched::ReplayDifference& one : report.first)
        ADD_FAILURE() << actors::answer_words(one.then) << " / " << actors::answer_words(one.now);
      for (const std::string& asked : registry.kinds()) {
        const bool is_rare = asked == "expert_placement" && kind != asked;
        if (!sched::keeps_questions(asked) || is_rare) continue;
        EXPECT_GE(got.kinds.count(asked), 1U) << asked;
      }
      ++jobs;
      decisions += report.all.decisions;
      preemptions += got.kinds.count("preemption") != 0 ? got.kinds.at("preemption") : 0;
    }
  }
  fmt::print("{} jobs, {} decisions, {} preemptions\n", jobs, decisions, preemptions);
  EXPECT_GT(jobs, 30);
  EXPECT_GT(decisions, 10'000);
}

} // namespace
} // namespace troupe::test
