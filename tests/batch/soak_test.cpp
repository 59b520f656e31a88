// A long run with random deaths of ranks: answers stay the same, memory, threads and files flat.
//
// TROUPE_SOAK_MINUTES (default 4) says how long, TROUPE_SOAK_DEVICE (default null) on what,
// TROUPE_SEED which faults. One line of figures every few seconds.

#include "actors/app/job_setup.hpp"
#include "schedulers/core/rng.hpp"
#include "tests/support/endless_job.hpp"
#include "tests/support/faulty_engine.hpp"
#include "tests/support/live_system.hpp"
#include "tests/support/process_sample.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <thread>

namespace troupe::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kThrowIn = 3000; ///< One engine call in so many throws.
constexpr std::uint64_t kHangIn = 60000; ///< One call in so many does not return in time.
constexpr std::chrono::milliseconds kHang{1500};

std::string environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

/// Random faults of all engines.
class Storm {
public:
  explicit Storm(std::uint64_t seed) : rng_(seed) {}

  app::EngineWrap wrap() {
    return [this](const std::string&, RankRef, std::shared_ptr<engine::Engine> engine) {
      return std::make_shared<FaultyEngine>(
          std::move(engine), [this](EngineCall call, const engine::StepPlan*) { on_call(call); });
    };
  }
  std::int64_t hangs() const noexcept { return hangs_; }

private:
  bool one_in(std::uint64_t n) {
    const std::lock_guard lock(mutex_);
    return rng_.below(n) == 0;
  }
  void on_call(EngineCall call) {
    if (call == EngineCall::closed) return;
    if (one_in(kThrowIn)) throw std::runtime_error("a storm");
    if (one_in(kHangIn)) {
      ++hangs_;
      std::this_thread::sleep_for(kHang);
    }
  }

  std::mutex mutex_;
  Rng rng_;
  std::atomic<std::int64_t> hangs_{0};
};

/// Medians over samples [begin, end).
ProcessSample median(std::vector<ProcessSample> samples, std::size_t begin, std::size_t end) {
  const auto of = [&](std::int64_t ProcessSample::*field) {
    std::vector<std::int64_t> values;
    for (std::size_t i = begin; i < end; ++i)
      values.push_back(samples[i].*field);
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  return {of(&ProcessSample::rss_kib), of(&ProcessSample::threads), of(&ProcessSample::files)};
}

app::SystemConfig config(const std::string& device) {
  app::SystemConfig out;
  out.model.path = std::string(TROUPE_SOURCE_DIR) + "/examples/models/nano-v4.1";
  out.kv.memory_bytes = 8LL << 20;
  out.limits.heartbeat_ms = 100;
  out.limits.no_progress_s = 1;
  out.limits.attempts_max = 1000;
  out.limits.rank_restarts_max = 1'000'000;
  out.limits.lease_ms = 1000;
  for (app::RankGroupConfig& group : out.ranks) {
    group.device = device;
    group.count = 2;
  }
  return out;
}

TEST(Soak, StaysFlatUnderRandomDeaths) {
  const double minutes = std::atof(environment("TROUPE_SOAK_MINUTES", "4").c_str());
  const auto seed = std::strtoull(environment("TROUPE_SEED", "20261130").c_str(), nullptr, 10);
  const std::string device = environment("TROUPE_SOAK_DEVICE", "null");
  std::cout << "seed " << seed << " (TROUPE_SEED), " << minutes << " minutes on device " << device
            << "\n";
  app::start_log("off"); // Each death says a word.
  const auto begin = Clock::now();
  const auto lasts =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(minutes * 60.0));
  const auto every = std::max<Clock::duration>(std::chrono::seconds{1}, lasts / 60);
  const auto job =
      std::make_shared<EndlessJob>([end = begin + lasts] { return Clock::now() >= end; });
  Storm storm(seed);
  std::vector<ProcessSample> samples;
  std::atomic<bool> over{false};
  std::thread watcher;
  LiveOptions options;
  options.job = job;
  options.wrap = storm.wrap();
  options.on_system = [&](app::LocalSystem& system) {
    watcher = std::thread([&, facts = system.actors().supervised] {
      while (!over) {
        std::this_thread::sleep_for(every);
        const ProcessSample sample = look_at_process();
        samples.push_back(sample);
        std::cout << fmt::format("{:6.0f} s  rss {:7} KiB  threads {:3}  files {:3}  lines {:9}  "
                                 "deaths {:6}  hangs {:4}",
                                 std::chrono::duration<double>(Clock::now() - begin).count(),
                                 sample.rss_kib, sample.threads, sample.files, job->done(),
                                 facts->lost.load(), storm.hangs())
                  << std::endl;
      }
    });
  };
  const LiveRun run = run_live(config(device), {}, options);
  over = true;
  watcher.join();
  EXPECT_TRUE(run.state.complete) << run.state.message;
  EXPECT_EQ(job->facts().failed, 0);
  EXPECT_GT(run.restarts, 0);
  ASSERT_GE(samples.size(), 8U);
  // Timers are held until they are due, up to a minute: the first half is warm-up.
  const ProcessSample early = median(samples, samples.size() / 2, samples.size() * 3 / 4);
  const ProcessSample late = median(samples, samples.size() * 3 / 4, samples.size());
  std::cout << fmt::format("medians of the third and the last quarter: rss {} and {} KiB, threads "
                           "{} and {}, files {} and {}\n",
                           early.rss_kib, late.rss_kib, early.threads, late.threads, early.files,
                           late.files);
  EXPECT_LE(late.rss_kib, early.rss_kib + std::max<std::int64_t>(early.rss_kib / 10, 8192));
  EXPECT_LE(late.threads, early.threads + 2);
  EXPECT_LE(late.files, early.files);
}

} // namespace
} // namespace troupe::test
