// A rank dies at each point of a request's life, in a running system on the bundled model: every
// answer is that of the undisturbed run, and nothing is held afterwards.

#include "tests/support/eval_requests.hpp"
#include "tests/support/rank_drill.hpp"
#include "tests/support/rank_groups.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>

namespace troupe::test {
namespace {

const std::string kModel = std::string(TROUPE_SOURCE_DIR) + "/examples/models/nano-v4.1";

constexpr std::int64_t kPrompts = 50;
constexpr std::int64_t kNewTokens = 8;

/// Ranks of a run, by count.
struct Cluster {
  std::int64_t prefill = 1;
  std::int64_t decode = 1;
  std::int64_t both = 0;
};

std::vector<Request> requests() {
  return eval_requests(kModel, kPrompts, [](auto& body, auto, auto) {
    body["max_tokens"] = kNewTokens;
    body["ignore_eos"] = true;
  });
}

app::SystemConfig config_of(const Cluster& cluster) {
  app::SystemConfig config;
  config.model.path = kModel;
  config.kv.memory_bytes = 16LL << 20;
  config.limits.step_tokens_max = 16; // So that prompts take several chunks.
  config.limits.sequences_max = 12;
  config.limits.heartbeat_ms = 50;
  config.limits.no_progress_s = 2;
  config.limits.attempts_max = 20; // A machine busy with other things must not exhaust them.
  config.limits.lease_ms = 2000;
  config.ranks.clear();
  add_ranks(config, sched::Role::prefill, cluster.prefill);
  add_ranks(config, sched::Role::decode, cluster.decode);
  add_ranks(config, sched::Role::both, cluster.both);
  return config;
}

/// What the model decided about each request.
std::vector<std::string> choices(const LiveRun& run) {
  std::vector<std::string> out;
  for (const auto& [number, line] : run.answers)
    out.push_back(nlohmann::json::parse(line)["response"]["body"]["choices"].dump());
  return out;
}

const std::vector<std::string>& undisturbed() {
  static const std::vector<std::string> first = [] {
    const LiveRun run = run_live(config_of({}), requests());
    EXPECT_TRUE(run.state.complete);
    EXPECT_EQ(run.failed, 0);
    EXPECT_EQ(run.restarts, 0);
    return choices(run);
  }();
  return first;
}

// -- the points --------------------------------------------------------------------------------

template <class Event>
std::function<bool(const sched::Event&)> is() {
  return [](const sched::Event& event) { return std::holds_alternative<Event>(event); };
}

bool no_draw(const engine::StepPlan* plan) {
  return std::find(plan->logits.begin(), plan->logits.end(), engine::Logits::last) ==
         plan->logits.end();
}

std::function<bool(const engine::StepPlan*)> draws_token(std::int64_t index) {
  return [index](const engine::StepPlan* plan) {
    return std::any_of(plan->sampling.begin(), plan->sampling.end(),
                       [&](const auto& sampling) { return sampling.output_position == index; });
  };
}

DeathPoint at_event(const char* name, const char* victim, Death death, const char* stage,
                    std::function<bool(const sched::Event&)> event, int occurrence) {
  DeathPoint point;
  point.name = name;
  point.victim = victim;
  point.death = death;
  point.stage = stage;
  point.event = std::move(event);
  point.occurrence = occurrence;
  return point;
}

DeathPoint at_call(const char* name, const char* victim, Death death, const char* rank,
                   EngineCall call, std::function<bool(const engine::StepPlan*)> plan,
                   int occurrence) {
  DeathPoint point;
  point.name = name;
  point.victim = victim;
  point.death = death;
  point.engine = rank;
  point.call = call;
  point.plan = std::move(plan);
  point.occurrence = occurrence;
  return point;
}

/// In the order of a request's life; `s` is the rank that prefills it, `t` the one that decodes.
std::vector<DeathPoint> points(const char* s, const char* t) {
  using sched::Adopt;
  using sched::Adopted;
  using sched::Assign;
  using sched::Exported;
  using sched::PrefillDone;
  using sched::Pull;
  using sched::Reserve;
  using sched::Reserved;
  using sched::RunChunks;
  using sched::StepDone;
  using sched::TransferDone;
  const auto threw = Death::throws;
  const auto killed = Death::killed;
  const auto hangs = Death::hangs;
  const auto step = EngineCall::step;
  const auto stepped = EngineCall::stepped;
  return {
      at_event("before assign, source", s, threw, s, is<Assign>(), 5),
      at_event("after assign, source", s, killed, "prefill", is<sched::Assigned>(), 5),
      at_event("before first chunk, source", s, threw, s, is<RunChunks>(), 4),
      at_call("mid-prefill, source throws in submit", s, threw, s, step, no_draw, 4),
      at_call("mid-prefill, source throws in wait", s, threw, s, stepped, no_draw, 4),
      at_call("mid-prefill, source hangs", s, hangs, s, step, no_draw, 6),
      at_call("last chunk, source throws in submit", s, threw, s, step, draws_token(0), 4),
      at_call("last chunk, source throws in wait", s, threw, s, stepped, draws_token(0), 4),
      at_call("last chunk, source hangs", s, hangs, s, stepped, draws_token(0), 4),
      at_event("last chunk done, source", s, threw, s, is<StepDone>(), 9),
      at_call("export, source throws", s, threw, s, EngineCall::export_kv, {}, 3),
      at_event("exported, source", s, threw, s, is<Exported>(), 3),
      at_event("before Reserve, source", s, killed, "decode", is<PrefillDone>(), 3),
      at_event("before Reserve, target", t, killed, "decode", is<PrefillDone>(), 3),
      at_event("at Reserve, target", t, threw, t, is<Reserve>(), 3),
      at_event("between Reserved and Pull, source", s, killed, "decode", is<Reserved>(), 3),
      at_event("between Reserved and Pull, target", t, killed, "decode", is<Reserved>(), 3),
      at_event("at Pull, target", t, threw, t, is<Pull>(), 3),
      at_call("transfer, source", s, killed, t, EngineCall::import_regions, {}, 3),
      at_call("transfer, target throws", t, threw, t, EngineCall::import_regions, {}, 3),
      at_call("arrived, target throws", t, threw, t, EngineCall::import_kv, {}, 3),
      at_call("arrived, target hangs", t, hangs, t, EngineCall::import_kv, {}, 3),
      at_event("before Adopt, source", s, killed, "decode", is<TransferDone>(), 3),
      at_event("before Adopt, target", t, killed, "decode", is<TransferDone>(), 3),
      at_event("at Adopt, target", t, threw, t, is<Adopt>(), 3),
      at_event("adopted, source", s, killed, "decode", is<Adopted>(), 3),
      at_event("adopted, target", t, killed, "decode", is<Adopted>(), 3),
      at_call("first decode step, target throws in submit", t, threw, t, step, draws_token(1), 3),
      at_call("first decode step, target throws in wait", t, threw, t, stepped, draws_token(1), 3),
      at_call("mid-decode, target throws in submit", t, threw, t, step, draws_token(4), 5),
      at_call("mid-decode, target throws in wait", t, threw, t, stepped, draws_token(4), 5),
      at_call("mid-decode, target hangs", t, hangs, t, stepped, draws_token(4), 5),
      at_event("mid-decode, step done, target", t, threw, t, is<StepDone>(), 12),
      at_call("last token, target throws in submit", t, threw, t, step, draws_token(kNewTokens - 1),
              5),
      at_call("last token, target throws in wait", t, threw, t, stepped,
              draws_token(kNewTokens - 1), 5),
  };
}

/// Whether the point exists on ranks that decode what they prefilled.
bool is_in_place(const DeathPoint& point) {
  for (const char* word : {"export", "Reserve", "Pull", "transfer", "arrived", "before Adopt"}) {
    if (point.name.find(word) != std::string::npos) return false;
  }
  return true;
}

/// Whether the victim dies in a step or right after one.
bool is_in_a_step(const DeathPoint& point) {
  for (const char* word : {"chunk", "decode", "last token"}) {
    if (point.name.find(word) != std::string::npos) return true;
  }
  return false;
}

void die_at(const DeathPoint& point, const Cluster& cluster,
            const std::string& overlap = "serial") {
  const std::vector<std::string>& wanted = undisturbed();
  ASSERT_EQ(wanted.size(), static_cast<std::size_t>(kPrompts));
  RankDrill drill(point);
  LiveOptions options = drill.options();
  options.settle_ms = 10'000;
  options.policies.kinds["overlap"].policy = overlap;
  const LiveRun run = run_live(config_of(cluster), requests(), options);
  EXPECT_TRUE(drill.fired());
  EXPECT_TRUE(run.state.complete) << run.state.message;
  EXPECT_EQ(run.failed, 0);
  EXPECT_EQ(run.restarts, 1);
  EXPECT_EQ(run.kv_blocks_held, 0);
  EXPECT_EQ(run.slots_held, 0);
  EXPECT_TRUE(run.conserved);
  const std::vector<std::string> got = choices(run);
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(got[i], wanted[i]) << "request " << i;
}

class RankDeath : public testing::TestWithParam<DeathPoint> {};

TEST_P(RankDeath, ChangesNoAnswer) { die_at(GetParam(), {1, 1, 0}); }

std::string test_name(const testing::TestParamInfo<DeathPoint>& info) {
  std::string out = info.param.name;
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return out;
}

INSTANTIATE_TEST_SUITE_P(Points, RankDeath, testing::ValuesIn(points("prefill-0", "decode-0")),
                         test_name);

// With two steps in flight: what is queued behind the step that dies is lost with it.
class RankDeathAhead : public testing::TestWithParam<DeathPoint> {};

TEST_P(RankDeathAhead, ChangesNoAnswer) { die_at(GetParam(), {1, 1, 0}, "one_ahead"); }

std::vector<DeathPoint> points_in_steps() {
  std::vector<DeathPoint> out;
  for (DeathPoint& point : points("prefill-0", "decode-0")) {
    if (is_in_a_step(point)) out.push_back(std::move(point));
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Points, RankDeathAhead, testing::ValuesIn(points_in_steps()), test_name);

class RankDeathSlow : public testing::TestWithParam<DeathPoint> {};

TEST_P(RankDeathSlow, ChangesNoAnswerBesideOtherRanks) { die_at(GetParam(), {2, 2, 0}); }

INSTANTIATE_TEST_SUITE_P(Points, RankDeathSlow, testing::ValuesIn(points("prefill-0", "decode-0")),
                         test_name);

class RankDeathInPlaceSlow : public testing::TestWithParam<DeathPoint> {};

TEST_P(RankDeathInPlaceSlow, ChangesNoAnswer) {
  if (!is_in_place(GetParam())) GTEST_SKIP() << "nothing moves between ranks of role both";
  die_at(GetParam(), {0, 0, 2});
}

INSTANTIATE_TEST_SUITE_P(Points, RankDeathInPlaceSlow,
                         testing::ValuesIn(points("both-0", "both-0")), test_name);

} // namespace
} // namespace troupe::test
