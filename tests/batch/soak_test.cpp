// A long run with random deaths of ranks: answers stay the same, memory, threads and files flat.
//
// TROUPE_SOAK_MINUTES (default 4) says how long, TROUPE_SOAK_DEVICE (default null) on what,
// TROUPE_SEED which faults. One line of figures every few seconds.

#include "actors/app/job_setup.hpp"
#include "schedulers/core/rng.hpp"
#include "tests/support/faulty_engine.hpp"
#include "tests/support/live_system.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace troupe::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kKinds = 97;      ///< Different requests; each comes again and again.
constexpr std::uint64_t kThrowIn = 3000; ///< One engine call in so many throws.
constexpr std::uint64_t kHangIn = 60000; ///< One call in so many does not return in time.
constexpr std::chrono::milliseconds kHang{1500};

std::string environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

/// Lines until a moment; checks each answer against the first one to the same request.
class EndlessJob final : public app::BatchJob {
public:
  explicit EndlessJob(Clock::time_point end) : end_(end) { facts_.job_id = "batch_soak"; }

  const app::JobFacts& facts() const noexcept override { return facts_; }

  Result<app::NextLines> next_lines(std::int64_t count_max) override {
    app::NextLines next;
    while (std::ssize(next.lines) < count_max) {
      app::PendingLine line;
      line.index = next_++;
      line.number = next_;
      const std::int64_t kind = line.index % kKinds;
      line.outcome.line = {std::to_string(next_), text::Endpoint::completions,
                           fmt::format(R"({{"prompt":[{}],"max_tokens":{},"seed":{},)"
                                       R"("ignore_eos":true,"temperature":1.0}})",
                                       fmt::join(prompt(kind), ","), 1 + kind % 29, kind)};
      open_.insert(line.index);
      next.lines.push_back(std::move(line));
    }
    next.at_end = Clock::now() >= end_;
    return next;
  }

  Status commit(std::span<const app::LineResult> results) override {
    for (const app::LineResult& result : results) {
      EXPECT_EQ(open_.erase(result.index), 1U) << "answered twice: " << result.index;
      EXPECT_TRUE(result.is_success) << result.text;
      ++(result.is_success ? facts_.succeeded : facts_.failed);
      if (!result.is_success) continue;
      const auto body = nlohmann::json::parse(result.text)["response"]["body"];
      const auto [first, is_new] = answers_.emplace(result.index % kKinds, body["choices"].dump());
      EXPECT_TRUE(is_new || first->second == body["choices"].dump()) << result.index;
    }
    done_ = facts_.done();
    return {};
  }
  Status stop() override { return {}; }
  Status finish() override {
    EXPECT_TRUE(open_.empty());
    return {};
  }

  std::int64_t done() const noexcept { return done_; }

private:
  static std::vector<std::int64_t> prompt(std::int64_t kind) {
    return std::vector<std::int64_t>(static_cast<std::size_t>(1 + kind * 7 % 150), 20 + kind);
  }

  Clock::time_point end_;
  app::JobFacts facts_;
  std::int64_t next_ = 0;
  std::set<std::int64_t> open_;
  std::map<std::int64_t, std::string> answers_;
  std::atomic<std::int64_t> done_{0};
};

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

struct Sample {
  std::int64_t rss_kib = 0;
  std::int64_t threads = 0;
  std::int64_t files = 0;
};

Sample look() {
  Sample out;
  std::ifstream status("/proc/self/status");
  std::string key;
  while (status >> key) {
    if (key == "VmRSS:") status >> out.rss_kib;
    if (key == "Threads:") status >> out.threads;
  }
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    static_cast<void>(entry);
    ++out.files;
  }
  return out;
}

/// Medians over samples [begin, end).
Sample median(std::vector<Sample> samples, std::size_t begin, std::size_t end) {
  const auto of = [&](std::int64_t Sample::*field) {
    std::vector<std::int64_t> values;
    for (std::size_t i = begin; i < end; ++i)
      values.push_back(samples[i].*field);
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  return {of(&Sample::rss_kib), of(&Sample::threads), of(&Sample::files)};
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
  const auto job = std::make_shared<EndlessJob>(begin + lasts);
  Storm storm(seed);
  std::vector<Sample> samples;
  std::atomic<bool> over{false};
  std::thread watcher;
  LiveOptions options;
  options.job = job;
  options.wrap = storm.wrap();
  options.on_system = [&](app::LocalSystem& system) {
    watcher = std::thread([&, facts = system.actors().supervised] {
      while (!over) {
        std::this_thread::sleep_for(every);
        const Sample sample = look();
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
  const Sample early = median(samples, samples.size() / 2, samples.size() * 3 / 4);
  const Sample late = median(samples, samples.size() * 3 / 4, samples.size());
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
