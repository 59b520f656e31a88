// What every expert placement keeps, whichever it is: valid plans for odd shapes and loads, the
// same answer to the same question, inputs left alone.

#include "schedulers/core/rng.hpp"
#include "schedulers/policy/validate_experts.hpp"
#include "tests/support/stage_probe.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace troupe::sched {
namespace {

using testing::builtins;

std::int64_t some(Rng& rng, std::uint64_t n) { return static_cast<std::int64_t>(rng.below(n)); }

std::unique_ptr<Policy> build(const std::string& name) {
  PolicySet set;
  set.kinds["expert_placement"].policy = name;
  return builtins().build("expert_placement", set).value();
}

void ask_both(ExpertPlacement& one, ExpertPlacement& two, Rng& rng) {
  ExpertQuery query;
  query.topology = {6 + some(rng, 3) * 3, 0, 1 + some(rng, 4), 3, 1 + some(rng, 3)};
  query.topology.slots = query.topology.experts + some(rng, 9);
  query.moves_max = some(rng, 6);
  std::vector<std::int64_t> loads, steps;
  for (std::int64_t e = 0; e < query.topology.experts; ++e)
    loads.push_back(some(rng, 100) - (rng.below(60) == 0 ? 200 : 0));
  for (std::int64_t i = 0; i < 5 * query.topology.experts; ++i)
    steps.push_back(some(rng, 20));
  const std::vector<std::int64_t> frozen = loads;
  const ExpertLayerView layer{loads, steps, {}};
  query.layers = {&layer, 1};
  const auto a = one.plan(query, {});
  const auto b = two.plan(query, {});
  ASSERT_TRUE(validate(a, query).ok()) << validate(a, query).error().message;
  ASSERT_EQ(loads, frozen);
  ASSERT_EQ(a.value->layers[0].slots, b.value->layers[0].slots);
  const ExpertLayerView again{loads, steps, a.value->layers[0].slots};
  query.layers = {&again, 1};
  const auto next = one.plan(query, {});
  ASSERT_TRUE(validate(next, query).ok()) << validate(next, query).error().message;
  query.layers = {};
  ASSERT_TRUE(one.plan(query, {}).value->layers.empty());
}

TEST(ExpertConformance, EveryPolicyAnswersEveryShapeValidlyAndTheSame) {
  std::printf("seed 59\n");
  for (const std::string& name : builtins().names("expert_placement")) {
    SCOPED_TRACE(name);
    const auto one = build(name);
    const auto two = build(name);
    Rng rng(59);
    for (int round = 0; round < 200; ++round)
      ask_both(dynamic_cast<ExpertPlacement&>(*one), dynamic_cast<ExpertPlacement&>(*two), rng);
  }
}

TEST(ExpertConformance, ALayerWithoutLoadsMayNotMove) {
  const std::vector<std::int64_t> loads{4, 3, 2, 1};
  const std::vector<std::int32_t> map{0, 1, 2, 3};
  const ExpertLayerView layer{{}, {}, map};
  const ExpertQuery query{{4, 4, 2, 1, 1}, {&layer, 1}, 8, {}};
  ExpertLayout layout;
  layout.layers.push_back({{2, 1, 0, 3}, LayerChange::moved, 2});
  layout.moves = 2;
  EXPECT_EQ(validate({layout, Reason::lowest_score}, query).error().message,
            "a new map for a layer whose loads are not known");
  const ExpertLayerView known{loads, {}, map};
  EXPECT_TRUE(validate({layout, Reason::lowest_score}, {query.topology, {&known, 1}, 8, {}}).ok());
}

} // namespace
} // namespace troupe::sched
