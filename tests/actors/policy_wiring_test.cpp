// The policy manager among the other actors, under virtual time: who hears what, what canaries and
// shadows see, and that new lives decide by the live set.

#include "schedulers/core/hash.hpp"
#include "schedulers/registry/kept_kinds.hpp"
#include "tests/support/deterministic_system.hpp"
#include "tests/support/faulty_engine.hpp"
#include "tests/support/rank_groups.hpp"
#include "tests/support/swapper.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace troupe::test {
namespace {

const std::string kModel = std::string(TROUPE_SOURCE_DIR) + "/examples/models/nano-v4.1";

/// Ranks on the null device, fifty times as fast as modelled.
app::SystemConfig quick_config(std::int64_t prefill, std::int64_t decode, std::int64_t both) {
  app::SystemConfig config = null_config(prefill, decode, both);
  for (app::RankGroupConfig& group : config.ranks)
    group.cost_model.null_speed = 0.02;
  return config;
}

sched::PolicySet set_of(const std::string& name, const std::map<std::string, std::string>& kinds) {
  sched::PolicySet set;
  set.name = name;
  set.probation.window_us = 0;
  for (const auto& [kind, policy] : kinds)
    set.kinds[kind].policy = policy;
  return set;
}

/// A body with a prompt of `tokens` tokens; `more` is appended to its fields.
std::string body(int i, int tokens, int new_tokens, const std::string& more = {}) {
  return fmt::format(
      R"({{"prompt":[{}],"max_tokens":{},"ignore_eos":true{}}})",
      fmt::join(std::vector<int>(static_cast<std::size_t>(tokens), 20 + i % 50), ","), new_tokens,
      more);
}

/// Every decision of a kind with what was asked, in order.
template <class Question>
using Seen = std::vector<sched::AskedPtr<Question>>;

template <class Question>
void collect(const sched::Effects& effects, Seen<Question>& seen) {
  for (const sched::Effect& effect : effects.list()) {
    const auto* record = std::get_if<sched::Record>(&effect);
    if (record == nullptr || !record->asked) continue;
    if (const auto* asked = std::get_if<sched::AskedPtr<Question>>(&*record->asked))
      seen.push_back(*asked);
  }
}

void push(DeterministicSystem& system, const std::vector<std::string>& bodies) {
  for (const std::string& one : bodies)
    system.job().push(text::Endpoint::completions, one);
  system.job().close();
}

std::vector<std::string> bodies_of(int count) {
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i)
    out.push_back(body(i, 1 + i * 7 % 90, 2 + i % 23));
  return out;
}

template <class Message>
void tell(const DeterministicSystem& system, Message message) {
  caf::anon_send(system.actors().peers->manager, std::move(message));
}

void ask(const DeterministicSystem& system, const sched::PolicySet& set) {
  tell(system, sched::SwapAsked{0, set, sched::SwapCause::command, "a test"});
}

// -- swaps -------------------------------------------------------------------------------------

TEST(PolicyWiring, ASwapReachesEveryStage) {
  EpochWatch watch;
  std::map<std::string, PolicyEpoch> last;
  DeterministicSystem::Options options{quick_config(2, 2, 0), {}, {}, 16, {}, {}, {}};
  options.watch = [&](const std::string& stage, const sched::Effects& effects) {
    watch.see(stage, effects);
    for (const sched::Effect& effect : effects.list())
      if (const auto* record = std::get_if<sched::Record>(&effect)) last[stage] = record->epoch;
  };
  options.on_live = [&](const sched::SetLive& live) { watch.live(live); };
  DeterministicSystem system(options, kModel);
  push(system, bodies_of(120));
  system.pass(6'000);
  ask(system, set_of("fast", {{"decode_balancer", "least_kv"}, {"step", "prefill_first"}}));
  EXPECT_TRUE(system.run(100'000).complete);
  EXPECT_EQ(watch.wrong(), 0) << watch.first_wrong();
  EXPECT_EQ(watch.epochs(), 2U);
  EXPECT_EQ(last.size(), 7U) << "driver, chunker, balancer, four ranks";
  for (const auto& [stage, epoch] : last)
    EXPECT_EQ(epoch, PolicyEpoch{2}) << stage;
  const actors::ManagerView view = system.actors().policies->view();
  EXPECT_EQ(view.live.name, "fast");
  EXPECT_FALSE(view.swapping);
  ASSERT_EQ(view.history.size(), 2U);
  EXPECT_EQ(view.history[1].how, sched::SwapCause::command);
  EXPECT_EQ(view.history[1].reason, "a test");
  EXPECT_EQ(system.actors().counters->unexpected, 0);
}

TEST(PolicyWiring, ARefusedSetChangesNothing) {
  DeterministicSystem system({quick_config(1, 1, 0), {}, {}, 16, {}, {}, {}}, kModel);
  push(system, bodies_of(40));
  system.pass(2'000);
  ask(system, set_of("broken", {{"step", "prefill_fist"}}));
  EXPECT_TRUE(system.run(100'000).complete);
  const actors::ManagerView view = system.actors().policies->view();
  EXPECT_EQ(view.live.name, "default");
  EXPECT_EQ(view.live.epoch, PolicyEpoch{1});
  EXPECT_EQ(view.history.size(), 1U);
}

TEST(PolicyWiring, ARollbackBringsTheSetBefore) {
  DeterministicSystem system({quick_config(1, 1, 0), {}, {}, 16, {}, {}, {}}, kModel);
  system.pass(100'000);
  ask(system, set_of("fast", {{"queue", "sjf"}}));
  system.pass(100'000);
  EXPECT_EQ(system.actors().policies->view().live.name, "fast");
  tell(system, sched::RollbackAsked{0, "a person's words"});
  system.pass(100'000);
  const actors::ManagerView view = system.actors().policies->view();
  EXPECT_EQ(view.live.name, "default");
  EXPECT_EQ(view.live.epoch, PolicyEpoch{3});
  EXPECT_EQ(view.history.back().how, sched::SwapCause::rollback);
}

/// The first life of `victim` throws at its `step`-th step.
app::EngineWrap failing(const std::string& victim, int step) {
  return [=](const std::string& rank, RankRef life,
             std::shared_ptr<engine::Engine> engine) -> std::shared_ptr<engine::Engine> {
    if (rank != victim || raw(life.incarnation) > 1) return engine;
    const auto seen = std::make_shared<int>(0);
    return std::make_shared<FaultyEngine>(std::move(engine),
                                          [=](EngineCall call, const engine::StepPlan*) {
                                            if (call == EngineCall::step && ++*seen == step)
                                              throw std::runtime_error("no current");
                                          });
  };
}

TEST(PolicyWiring, ANewLifeIsBuiltFromTheLiveSet) {
  std::vector<std::string> policies;
  DeterministicSystem::Options options{quick_config(1, 1, 0), {}, {}, 16, {}, {}, {}};
  options.wrap = failing("decode-0", 30);
  options.watch = [&](const std::string& stage, const sched::Effects& effects) {
    for (const sched::Effect& effect : effects.list()) {
      const auto* record = std::get_if<sched::Record>(&effect);
      if (record != nullptr && stage == "decode-0") policies.push_back(record->policy);
    }
  };
  DeterministicSystem system(options, kModel);
  push(system, bodies_of(60));
  ask(system, set_of("fast", {{"step", "prefill_first"}}));
  EXPECT_TRUE(system.run(100'000).complete);
  EXPECT_EQ(system.actors().supervised->restarts, 1);
  EXPECT_GT(policies.size(), 40U);
  EXPECT_EQ(policies.back(), "prefill_first");
  EXPECT_EQ(std::count(policies.begin() + 30, policies.end(), "decode_first"), 0);
}

/// Names of policies that are there the first `times` times only, as in a library that goes.
class FadingLibrary final : public sched::LibrarySource {
public:
  explicit FadingLibrary(int times) : left_(times) {}
  Result<sched::PolicyFactory> find(const sched::LibrarySpec& library, const std::string&,
                                    const std::string& name) override {
    if (name != "fading") return sched::PolicyFactory{};
    if (left_-- <= 0) return Error{ErrorCode::io_error, library.path + ": no such file"};
    return sched::PolicyFactory([](OptionTable) {
      sched::PolicyRegistry registry;
      sched::register_builtin_policies(registry);
      return Result<std::unique_ptr<sched::Policy>>(registry.build_default("step"));
    });
  }
  std::set<std::string> names(const sched::LibrarySpec&, const std::string&) override { return {}; }

private:
  int left_;
};

TEST(PolicyWiring, ALifeWhoseSetCannotBeBuiltAnyMoreWorksOnAndSaysSo) {
  auto registry = std::make_shared<sched::PolicyRegistry>();
  sched::register_builtin_policies(*registry);
  // Each of two ranks builds it once to rehearse and once to keep.
  registry->set_library_source(std::make_shared<FadingLibrary>(4));
  sched::PolicySet set = set_of("from a library", {{"step", "fading"}});
  set.libraries.push_back({"/tmp/libfading.so", "", false, 1000, 1000});
  DeterministicSystem::Options options{quick_config(1, 1, 0), {}, {}, 16, {}, {}, {}};
  options.registry = registry;
  options.wrap = failing("decode-0", 30);
  DeterministicSystem system(options, kModel);
  push(system, bodies_of(60));
  system.pass(1); // The ranks have announced themselves: they prepare the set.
  ask(system, set);
  EXPECT_TRUE(system.run(100'000).complete);
  EXPECT_EQ(system.actors().supervised->restarts, 1);
  const actors::ManagerView view = system.actors().policies->view();
  EXPECT_EQ(view.live.name, "from a library");
  ASSERT_EQ(view.faults.size(), 1U);
  for (const char* words : {"from a library", "no such file", "compiled-in"})
    EXPECT_NE(view.faults[0].fault.what.find(words), std::string::npos)
        << view.faults[0].fault.what;
}

TEST(PolicyWiring, GuardrailsSeeTheEndingsOfRequests) {
  // A chunker that gives a rank one token a step makes the first token late.
  sched::PolicySet slow = set_of("slow", {{"prefill_chunker", "fixed"}});
  slow.kinds["prefill_chunker"].options = OptionTable("prefill_chunker");
  slow.kinds["prefill_chunker"].options.set("budget_tokens", {std::int64_t{1}, ""});
  slow.probation.window_us = 400'000;
  slow.probation.requests_min = 20;
  slow.probation.goodput_permille = 0;
  sched::PolicySet first = set_of("first", {{"admission", "always"}});
  first.probation.window_us = 600'000;
  first.probation.requests_min = 20;
  DeterministicSystem system({quick_config(1, 1, 0), first, {}, 8, {}, {}, {}}, kModel);
  std::vector<std::string> bodies;
  for (int i = 0; i < 2500; ++i)
    bodies.push_back(body(i, 40, 4));
  push(system, bodies);
  system.pass(700'000);
  ask(system, slow);
  EXPECT_TRUE(system.run(100'000).complete);
  const actors::ManagerView view = system.actors().policies->view();
  ASSERT_EQ(view.history.size(), 3U);
  EXPECT_EQ(view.live.name, "first");
  EXPECT_NE(view.history[2].reason.find("TTFT p95 went from"), std::string::npos)
      << view.history[2].reason;
}

// -- load and sessions -------------------------------------------------------------------------

// R2: a burst of long prompts at one instant is spread, because load counts from dispatch.
TEST(PolicyWiring, R2_ABurstOfLongPromptsIsSpread) {
  Seen<sched::RouterQuestion> seen;
  app::SystemConfig config = quick_config(4, 1, 0);
  config.kv.memory_bytes = 64LL << 20;
  DeterministicSystem::Options options{config, {}, {}, 32, {}, {}, {}};
  options.watch = [&](const std::string&, const sched::Effects& effects) {
    collect(effects, seen);
  };
  DeterministicSystem system(options, kModel);
  std::vector<std::string> burst;
  for (int i = 0; i < 32; ++i)
    burst.push_back(body(i, 2000, 1));
  push(system, burst);
  EXPECT_TRUE(system.run(100'000).complete);
  std::map<RankId, int> routed;
  for (const auto& asked : seen)
    if (asked->answer.value) ++routed[asked->answer.value->rank];
  ASSERT_EQ(routed.size(), 4U);
  for (const auto& [rank, count] : routed)
    EXPECT_EQ(count, 8) << "rank " << raw(rank);
}

// R3: with session_hash only the sessions of a rank without room go elsewhere.
TEST(PolicyWiring, R3_OnlyTheSessionsOfAFullRankMove) {
  Seen<sched::RouterQuestion> seen;
  app::SystemConfig config = quick_config(4, 1, 0);
  config.limits.sequences_max = 3; // Soon full.
  DeterministicSystem::Options options{
      config, set_of("sessions", {{"prefill_router", "session_hash"}}), {}, 64, {}, {}, {}};
  options.watch = [&](const std::string&, const sched::Effects& effects) {
    collect(effects, seen);
  };
  DeterministicSystem system(options, kModel);
  std::vector<std::string> bodies;
  for (int i = 0; i < 600; ++i)
    bodies.push_back(body(i, 30, 3, fmt::format(R"(,"user":"user {}")", i % 40)));
  push(system, bodies);
  EXPECT_TRUE(system.run(100'000).complete);
  sched::PolicyRegistry registry;
  sched::register_builtin_policies(registry);
  const auto built = registry.build("prefill_router", options.policies);
  auto& router = dynamic_cast<sched::PrefillRouter&>(**built);
  std::int64_t at_home = 0, moved = 0;
  for (const auto& asked : seen) {
    if (!asked->answer.value) continue;
    // Home of a session: the rank it gets when every rank has room.
    sched::RouterQuestion all_open = asked->question;
    bool home_is_open = false;
    for (sched::RankView& rank : all_open.ranks) {
      rank.slots_free = rank.slots_total;
      rank.kv_blocks_free = rank.kv_blocks_total;
      rank.held = false;
    }
    const RankId home = sched::ask(router, all_open).value->rank;
    for (const sched::RankView& rank : asked->question.ranks) {
      const bool open = !rank.draining && !rank.held && rank.slots_free > 0;
      if (rank.rank.rank == home) home_is_open = open;
    }
    EXPECT_EQ(asked->answer.value->rank == home, home_is_open)
        << "session " << asked->question.request.session_hash;
    ++(home_is_open ? at_home : moved);
  }
  EXPECT_GT(at_home, 100);
  EXPECT_GT(moved, 10);
}

// -- canary ------------------------------------------------------------------------------------

/// Whether each session was decided for by the canary, kind by kind.
struct CanaryWatch {
  std::map<std::string, std::map<std::uint64_t, std::set<bool>>> kinds;
  std::int64_t decisions = 0;

  void see(const sched::Effects& effects) {
    for (const sched::Effect& effect : effects.list()) {
      const auto* record = std::get_if<sched::Record>(&effect);
      if (record == nullptr || !record->asked || !sched::has_canary(record->kind)) continue;
      std::visit(
          [&](const auto& asked) {
            kinds[record->kind][asked->question.session_hash()].insert(asked->canary);
            decisions += asked->canary ? 1 : 0;
          },
          *record->asked);
    }
  }
};

TEST(PolicyWiring, TheCanaryHasTheSameSessionsEverywhereAndAfterASwap) {
  constexpr std::int64_t kPermille = 300;
  sched::PolicySet set = set_of("with canary", {});
  for (const auto& [kind, policy] :
       std::map<std::string, std::string>{{"admission", "always"},
                                          {"prefill_router", "two_choices"},
                                          {"handoff", "paced"},
                                          {"decode_balancer", "least_count"}})
    set.canary[kind].policy = policy;
  set.canary_permille = kPermille;
  CanaryWatch watch;
  std::int64_t before = 0;
  DeterministicSystem::Options options{quick_config(2, 2, 0), set, {}, 16, {}, {}, {}};
  options.watch = [&](const std::string&, const sched::Effects& effects) { watch.see(effects); };
  DeterministicSystem system(options, kModel);
  std::vector<std::string> bodies;
  std::set<std::uint64_t> sessions;
  for (int i = 0; i < 400; ++i) {
    // By turns a named session, a user, and nothing: then the line's custom_id.
    const std::string name = fmt::format("name {}", i % 80);
    const std::string named =
        fmt::format(R"(,"user":"ignored","metadata":{{"session_id":"{}"}})", name);
    const std::string used = fmt::format(R"(,"user":"{}")", name);
    bodies.push_back(body(i, 10 + i % 50, 2 + i % 5,
                          i % 3 == 0   ? named
                          : i % 3 == 1 ? used
                                       : std::string()));
    if (i % 3 != 2) sessions.insert(hash64(name));
  }
  push(system, bodies);
  system.pass(20'000);
  before = watch.decisions;
  EXPECT_GT(before, 0);
  EXPECT_EQ(system.actors().policies->view().canary_decisions, before);
  sched::PolicySet next = set;
  next.name = "again";
  next.kinds["step"].policy = "prefill_first";
  ask(system, next);
  EXPECT_TRUE(system.run(100'000).complete);
  EXPECT_GT(watch.decisions, before);
  ASSERT_EQ(watch.kinds.size(), 4U);
  std::int64_t in_share = 0;
  for (const auto& [kind, by_session] : watch.kinds) {
    EXPECT_GE(by_session.size(), sessions.size());
    for (const auto& [session, canary] : by_session) {
      const bool expected = sched::in_canary_share(session, kPermille);
      EXPECT_EQ(canary, std::set<bool>{expected}) << kind << " session " << session;
      in_share += kind == "admission" && expected ? 1 : 0;
    }
  }
  for (const std::uint64_t session : sessions)
    EXPECT_EQ(watch.kinds["admission"].count(session), 1U) << "a session is named by its hash";
  // 213 sessions, 30 % of them: 64 +- 4 deviations of 6.7.
  EXPECT_NEAR(static_cast<double>(in_share), 64.0, 27.0);
}

// -- shadow ------------------------------------------------------------------------------------

TEST(PolicyWiring, AShadowOfTheSamePolicyNeverDisagrees) {
  std::map<std::string, std::set<std::string>> compared;
  for (sched::PolicySet set : sets_of_all_builtins()) {
    set.shadow = set.kinds;
    app::SystemConfig config = quick_config(2, 2, 0);
    config.limits.sequences_max = 6; // So that requests wait and are routed again.
    config.experts.interval_ms = 20;
    actors::ShadowLane* lane = nullptr;
    DeterministicSystem::Options options{config, set, {}, 24, {}, {}, {}};
    // Nothing may be dropped: the lane has a real thread, the others have none.
    options.tap = [&](const std::string&, const sched::Event&, std::int64_t) {
      EXPECT_TRUE(lane == nullptr || lane->drain(std::chrono::seconds{20}));
    };
    DeterministicSystem system(options, kModel);
    lane = system.actors().shadows.get();
    std::vector<std::string> bodies;
    for (int i = 0; i < 60; ++i)
      bodies.push_back(body(i, 1 + i * 7 % 90, 2 + i % 9, fmt::format(R"(,"user":"u{}")", i % 4)));
    push(system, bodies);
    EXPECT_TRUE(system.run(100'000).complete);
    system.pass(200'000); // The last loads of experts are reported, and a plan is made.
    EXPECT_TRUE(lane->drain(std::chrono::seconds{20}));
    for (const auto& [kind, totals] : system.actors().policies->view().shadow) {
      if (!sched::keeps_questions(kind)) continue;
      EXPECT_EQ(totals.policy, set.kinds[kind].policy);
      EXPECT_EQ(totals.disagreed, 0) << kind << " " << totals.policy;
      EXPECT_EQ(totals.failed, 0) << kind << " " << totals.policy;
      EXPECT_EQ(totals.dropped, 0) << kind << " " << totals.policy;
      EXPECT_GT(totals.decisions, 0) << kind << " " << totals.policy;
      compared[kind].insert(totals.policy);
    }
  }
  sched::PolicyRegistry registry;
  sched::register_builtin_policies(registry);
  for (const std::string& kind : registry.kinds()) {
    if (!sched::keeps_questions(kind)) continue;
    EXPECT_EQ(compared[kind], names_without_options(registry, kind)) << kind;
  }
}

} // namespace
} // namespace troupe::test
