// A live job that is disturbed in every way: answers outgrow the room, a rank dies while it
// decodes, and policies are swapped beside it.

#pragma once

#include "tests/support/live_system.hpp"
#include "tests/support/rank_drill.hpp"
#include "tests/support/rank_groups.hpp"
#include "tests/support/swapper.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::test {

/// The bundled model's ranks on null engines, slow enough to be disturbed, each with `blocks`
/// blocks of 16 tokens: room for a few requests.
inline app::SystemConfig tight_config(std::int64_t prefill, std::int64_t decode, std::int64_t both,
                                      std::int64_t blocks) {
  constexpr std::int64_t kNullBytesOfToken = 4;
  app::SystemConfig config = null_config(prefill, decode, both);
  config.model.path = std::string(TROUPE_SOURCE_DIR) + "/examples/models/nano-v4.1";
  for (app::RankGroupConfig& group : config.ranks)
    group.cost_model.null_speed = 0.05;
  config.kv.block_tokens = 16;
  config.kv.memory_bytes = blocks * 16 * kNullBytesOfToken;
  config.kv.reserve_quantile = 0.3;
  config.limits.sequences_max = 4;
  return config;
}

/// The first answers are short, those after them get longer than is then expected of their class.
inline std::vector<Request> outgrowing_requests(int count) {
  std::vector<Request> out;
  for (int i = 0; i < count; ++i) {
    const std::vector<int> prompt(static_cast<std::size_t>(1 + i * 37 % 200), 20 + i % 50);
    out.emplace_back(
        text::Endpoint::completions,
        fmt::format(R"({{"prompt":[{}],"max_tokens":{},"seed":{},"ignore_eos":true,"user":"u{}"}})",
                    fmt::join(prompt, ","), i < 16 ? 34 : 63, i, i % 3));
  }
  return out;
}

/// The engine of `victim` throws in a step, once it has made some.
inline DeathPoint death_while_decoding(const std::string& victim) {
  DeathPoint point;
  point.name = "decode step";
  point.victim = point.engine = victim;
  point.plan = [](const engine::StepPlan* plan) { return plan != nullptr; };
  point.occurrence = 40;
  return point;
}

/// What a thread of swaps does beside a job. The job's system waits for it, the owner too.
class SwapsBeside {
public:
  using Work = std::function<void(Swapper&, app::LocalSystem&)>;

  explicit SwapsBeside(Work work) : work_(std::move(work)) {}
  ~SwapsBeside() { wait(); }

  /// Begins when the system of these options runs.
  void join_in(LiveOptions& options) {
    options.on_system = [this, before = options.on_system](app::LocalSystem& system) {
      if (before) before(system);
      thread_ = std::thread([this, &system] {
        {
          Swapper swapper(system.actors().peers->manager);
          work_(swapper, system);
        }
        over = true;
      });
    };
  }
  void wait() {
    if (thread_.joinable()) thread_.join();
  }

  std::atomic<bool> over{false};

private:
  Work work_;
  std::thread thread_;
};

} // namespace troupe::test
