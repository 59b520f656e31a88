#include "actors/app/prompt_job.hpp"

#include <chrono>
#include <utility>

namespace troupe::app {

PromptJob::PromptJob() {
  facts_.job_id = "batch_000000000000000000000000";
  facts_.start_us = std::chrono::duration_cast<std::chrono::microseconds>(
                        std::chrono::system_clock::now().time_since_epoch())
                        .count();
}

void PromptJob::push(text::Endpoint endpoint, std::string body) {
  const std::lock_guard lock(mutex_);
  PendingLine line;
  line.index = next_++;
  line.number = next_;
  line.outcome.line = {std::to_string(next_), endpoint, std::move(body)};
  pending_.push_back(std::move(line));
}

void PromptJob::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

bool PromptJob::take(LineResult& result) {
  const std::lock_guard lock(mutex_);
  if (results_.empty()) return false;
  result = std::move(results_.front());
  results_.pop_front();
  return true;
}

Result<NextLines> PromptJob::next_lines(std::int64_t count_max) {
  const std::lock_guard lock(mutex_);
  NextLines next;
  while (!pending_.empty() && static_cast<std::int64_t>(next.lines.size()) < count_max) {
    next.lines.push_back(std::move(pending_.front()));
    pending_.pop_front();
  }
  next.at_end = closed_ && pending_.empty();
  return next;
}

Status PromptJob::commit(std::span<const LineResult> results) {
  const std::lock_guard lock(mutex_);
  for (const LineResult& result : results) {
    ++(result.is_success ? facts_.succeeded : facts_.failed);
    results_.push_back(result);
  }
  return {};
}

} // namespace troupe::app
