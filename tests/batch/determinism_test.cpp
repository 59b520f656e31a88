// Answers do not depend on how they were scheduled: step budgets, sequences per rank, ranks and
// roles, order of arrival, threads, and whether steps are planned ahead give the same tokens and
// the same log-probability bits.

#include "tests/support/eval_requests.hpp"
#include "tests/support/rank_groups.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <iostream>

namespace troupe::test {
namespace {

const std::string kModel = std::string(TROUPE_SOURCE_DIR) + "/examples/models/nano-v4.1";

constexpr std::array<std::int64_t, 4> kStepTokens{1, 7, 64, 512};
constexpr std::array<std::int64_t, 3> kSequences{1, 3, 32};
constexpr std::array<const char*, 3> kRanks{"1 both", "1P+1D", "2P+3D"};
constexpr std::int64_t kPrompts = 50;

struct Combination {
  std::size_t step_tokens = 3;
  std::size_t sequences = 2;
  std::size_t ranks = 0;
  bool reversed = false;
  std::int64_t threads = 1;
  bool ahead = false; ///< The overlap policy is one_ahead, else serial.

  std::string text() const {
    return fmt::format("step tokens {}, sequences {}, {}, {}, threads {}, {}",
                       kStepTokens[step_tokens], kSequences[sequences], kRanks[ranks],
                       reversed ? "reversed" : "in order", threads, ahead ? "one ahead" : "serial");
  }
};

std::vector<Request> requests() {
  return eval_requests(kModel, kPrompts, [](auto& body, auto, auto) { body["max_tokens"] = 24; });
}

app::SystemConfig config_of(const Combination& c) {
  app::SystemConfig config;
  config.model.path = kModel;
  config.kv.memory_bytes = 48LL << 20;
  config.limits.step_tokens_max = kStepTokens[c.step_tokens];
  config.limits.sequences_max = kSequences[c.sequences];
  config.ranks.clear();
  if (c.ranks == 0) {
    add_ranks(config, sched::Role::both, 1);
  } else {
    add_ranks(config, sched::Role::prefill, c.ranks == 1 ? 1 : 2);
    add_ranks(config, sched::Role::decode, c.ranks == 1 ? 1 : 3);
  }
  for (app::RankGroupConfig& group : config.ranks)
    group.threads = c.threads;
  return config;
}

/// Everything the model decided about each request, in the order of requests().
std::vector<std::string> answers(const Combination& c) {
  std::vector<Request> all = requests();
  if (c.reversed) std::reverse(all.begin(), all.end());
  LiveOptions extra;
  extra.policies.kinds["overlap"].policy = c.ahead ? "one_ahead" : "serial";
  const LiveRun run = run_live(config_of(c), all, extra);
  EXPECT_TRUE(run.state.complete) << c.text();
  EXPECT_EQ(run.failed, 0) << c.text();
  EXPECT_EQ(run.kv_blocks_held, 0) << c.text();
  EXPECT_EQ(run.slots_held, 0) << c.text();
  std::vector<std::string> out;
  for (const auto& [number, line] : run.answers) {
    out.push_back(nlohmann::json::parse(line)["response"]["body"]["choices"].dump());
  }
  if (c.reversed) std::reverse(out.begin(), out.end());
  return out;
}

const std::vector<std::string>& reference() {
  static const std::vector<std::string> first = answers({});
  return first;
}

void compare(const Combination& c) {
  const std::vector<std::string> got = answers(c);
  ASSERT_EQ(got.size(), reference().size()) << c.text();
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i], reference()[i]) << c.text() << ", request " << i;
  }
}

// Every pair of values of two factors occurs: 4 x 3 rows cover step tokens and sequences, the other
// factors are Latin squares over them; 16 rows with the extremes added.
TEST(Determinism, CoveringArray) {
  ASSERT_EQ(reference().size(), static_cast<std::size_t>(kPrompts));
  std::vector<Combination> rows;
  for (std::size_t a = 0; a < kStepTokens.size(); ++a) {
    for (std::size_t b = 0; b < kSequences.size(); ++b) {
      rows.push_back({a, b, (a + b) % 3, (a + b) % 2 == 1,
                      1 + static_cast<std::int64_t>((a / 2 + b) % 2),
                      (a / 2 + a + b / 2) % 2 == 0});
    }
  }
  rows.push_back({0, 2, 2, true, 2, true});
  rows.push_back({3, 0, 2, false, 2, true});
  rows.push_back({2, 2, 0, true, 2, false});
  rows.push_back({1, 1, 1, false, 1, true});
  for (std::size_t ranks = 0; ranks < kRanks.size(); ++ranks)
    rows.push_back({3, 2, ranks, false, 1, true}); // As the reference but for this.
  for (const Combination& c : rows)
    compare(c);
}

TEST(DeterminismSlow, EveryCombination) {
  for (std::size_t a = 0; a < kStepTokens.size(); ++a) {
    for (std::size_t b = 0; b < kSequences.size(); ++b) {
      for (std::size_t r = 0; r < kRanks.size(); ++r) {
        for (const bool reversed : {false, true}) {
          for (const std::int64_t threads : {1, 2}) {
            compare({a, b, r, reversed, threads, false});
            compare({a, b, r, reversed, threads, true});
          }
        }
      }
    }
    std::cout << "step tokens " << kStepTokens[a] << " done\n";
  }
}

} // namespace
} // namespace troupe::test
