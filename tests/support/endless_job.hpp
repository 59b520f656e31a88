// A batch job without end: lines of a few kinds until it is told that it is over. Each answer is
// compared with the first one to the same kind.

#pragma once

#include "actors/app/prompt_job.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::test {

class EndlessJob final : public app::BatchJob {
public:
  /// Different requests; each comes again and again.
  static constexpr std::int64_t kKinds = 97;
  using Answers = std::map<std::int64_t, std::string>; ///< By kind.

  /// @param over  asked when lines are read; any thread
  /// @param answers  what is expected of the kinds in it
  explicit EndlessJob(std::function<bool()> over, Answers answers = {})
      : over_(std::move(over)), answers_(std::move(answers)) {
    facts_.job_id = "batch_endless";
  }

  const app::JobFacts& facts() const noexcept override { return facts_; }

  Result<app::NextLines> next_lines(std::int64_t count_max) override {
    app::NextLines next;
    while (std::ssize(next.lines) < count_max) {
      app::PendingLine line;
      line.index = next_++;
      line.number = next_;
      const std::int64_t kind = line.index % kKinds;
      line.outcome.line = {fmt::format("{}", next_), text::Endpoint::completions, body(kind)};
      open_.insert(line.index);
      next.lines.push_back(std::move(line));
    }
    next.at_end = over_();
    return next;
  }

  Status commit(std::span<const app::LineResult> results) override {
    for (const app::LineResult& result : results) {
      EXPECT_EQ(open_.erase(result.index), 1U) << "answered twice: " << result.index;
      EXPECT_TRUE(result.is_success) << result.text;
      ++(result.is_success ? facts_.succeeded : facts_.failed);
      if (!result.is_success) continue;
      const std::string choices =
          nlohmann::json::parse(result.text)["response"]["body"]["choices"].dump();
      const auto [first, is_new] = answers_.emplace(result.index % kKinds, choices);
      EXPECT_TRUE(is_new || first->second == choices) << result.index;
    }
    done_ = facts_.done();
    return {};
  }
  Status stop() override { return {}; }
  Status finish() override {
    EXPECT_TRUE(open_.empty()) << "lines without answer";
    return {};
  }

  std::int64_t done() const noexcept { return done_; }
  /// @pre the job is over
  const Answers& answers() const noexcept { return answers_; }

private:
  static std::string body(std::int64_t kind) {
    const std::vector<std::int64_t> prompt(static_cast<std::size_t>(1 + kind * 7 % 150), 20 + kind);
    return fmt::format(R"({{"prompt":[{}],"max_tokens":{},"seed":{},"user":"user {}",)"
                       R"("ignore_eos":true,"temperature":1.0}})",
                       fmt::join(prompt, ","), 1 + kind % 29, kind, kind % 7);
  }

  std::function<bool()> over_;
  app::JobFacts facts_;
  std::int64_t next_ = 0;
  std::set<std::int64_t> open_;
  Answers answers_;
  std::atomic<std::int64_t> done_{0};
};

} // namespace troupe::test
