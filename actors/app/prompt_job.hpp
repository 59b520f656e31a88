// A job whose lines come from the terminal and whose answers stay in memory.

#pragma once

#include "actors/app/journal.hpp"

#include <deque>
#include <mutex>
#include <string>

namespace troupe::app {

/// Thread: any; the journal writer reads, the main thread pushes and takes.
class PromptJob : public BatchJob {
public:
  PromptJob();

  /// Adds a request; its custom_id is its number.
  void push(text::Endpoint endpoint, std::string body);
  /// No more requests will come.
  void close();
  /// The next answer line, when there is one. `is_success` as in LineResult.
  bool take(LineResult& result);

  const JobFacts& facts() const noexcept override { return facts_; }
  Result<NextLines> next_lines(std::int64_t count_max) override;
  Status commit(std::span<const LineResult> results) override;
  Status stop() override { return {}; }
  Status finish() override { return {}; }

private:
  std::mutex mutex_;
  JobFacts facts_;
  std::deque<PendingLine> pending_;
  std::deque<LineResult> results_;
  std::int64_t next_ = 0;
  bool closed_ = false;
};

} // namespace troupe::app
