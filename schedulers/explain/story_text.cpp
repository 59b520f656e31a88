#include "schedulers/explain/story_text.hpp"

#include "schedulers/core/printable.hpp"
#include "schedulers/explain/words.hpp"

#include <algorithm>

namespace troupe::sched {
namespace {

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string right(const std::string& text, std::size_t width) {
  return std::string(text.size() < width ? width - text.size() : 0, ' ') + text;
}

std::string_view end_name(EndReason end) noexcept {
  switch (end) {
  case EndReason::none:
    return "stop string";
  case EndReason::eos:
    return "end of sequence";
  case EndReason::stop_id:
    return "stop id";
  case EndReason::length:
    break;
  }
  return "length";
}

constexpr std::size_t kCustomIdShown = 512; ///< The longest that a batch takes.

std::string heading(const Story& story) {
  std::string out = "request " + std::to_string(raw(story.request));
  if (!story.custom_id.empty()) out += " (" + printable(story.custom_id, kCustomIdShown) + ")";
  if (story.runs) {
    return out + ": runs, " + duration_text(story.latency_us) + " so far" +
           (story.tries > 1 ? ", try " + std::to_string(story.tries) : "") + "\n";
  }
  if (!story.ended) {
    return out + ": not ended after " + duration_text(story.latency_us) +
           ", where the ledger ends\n";
  }
  const Finish& finish = story.finish;
  const bool ok = finish.code == ErrorCode::ok;
  out += ": " + std::string(error_name(finish.code)) + " (" +
         (ok ? std::string(end_name(finish.end)) : message_line(finish.detail)) + ") after " +
         duration_text(story.latency_us) + ", " + count_text(finish.output_tokens, "token");
  if (finish.output_tokens > 0) {
    out += ", the first after " + duration_text(finish.first_token_us - finish.arrival_us);
  }
  out += "; " + count_text(finish.attempts, "attempt");
  if (story.preemptions() > 0) out += ", " + count_text(story.preemptions(), "preemption");
  return out + "\n";
}

std::string span_text(const StorySpan& span) {
  std::string out = "  " + right(duration_text(span.from_us), 14) + "  +" +
                    padded(duration_text(span.to_us - span.from_us), 14) + "  " + span.what + "\n";
  for (const std::string& fact : span.facts)
    out += std::string(35, ' ') + message_line(fact) + "\n";
  return out;
}

std::string candidate_text(const StoryCandidate& candidate) {
  std::string out = candidate.name;
  if (candidate.score) out += ", score " + std::to_string(*candidate.score);
  return candidate.feasible ? out : out + ", " + candidate.lacks;
}

std::string decision_text(const StoryDecision& decision) {
  std::string out = "  " + right(duration_text(decision.at_us), 14) + "  " + decision.kind + " " +
                    decision.policy + ", epoch " + std::to_string(raw(decision.epoch)) +
                    (decision.canary ? ", canary" : "") + ": " + decision.chosen + " (" +
                    std::string(reason_name(decision.reason)) + ")\n";
  for (const StoryCandidate& candidate : decision.candidates)
    out += std::string(18, ' ') + candidate_text(candidate) + "\n";
  return out;
}

std::string verdict(const StoryDecision& decision, const StoryCandidate& candidate) {
  if (decision.chosen == candidate.name) {
    return "it was chosen: " + std::string(reason_name(decision.reason));
  }
  if (!candidate.feasible) return candidate.lacks;
  const auto chosen =
      std::find_if(decision.candidates.begin(), decision.candidates.end(),
                   [&](const StoryCandidate& other) { return other.name == decision.chosen; });
  std::string out = "it had room; " + decision.chosen +
                    " was chosen: " + std::string(reason_name(decision.reason));
  if (candidate.score && chosen != decision.candidates.end() && chosen->score) {
    out += ", score " + std::to_string(*chosen->score) + " against its " +
           std::to_string(*candidate.score);
  }
  return out;
}

} // namespace

std::string story_text(const Story& story) {
  std::string out = heading(story);
  if (story.missing > 0) {
    out += "  the ledger lost " + std::to_string(story.missing) + " entries of this time\n";
  }
  for (const StorySpan& span : story.spans)
    out += span_text(span);
  if (!story.decisions.empty()) out += "decisions\n";
  for (const StoryDecision& decision : story.decisions)
    out += decision_text(decision);
  return out;
}

std::map<RankId, std::string> candidates_of(const Story& story) {
  std::map<RankId, std::string> out;
  for (const StoryDecision& decision : story.decisions) {
    for (const StoryCandidate& candidate : decision.candidates)
      out.emplace(candidate.rank.rank, candidate.name);
  }
  return out;
}

std::vector<std::string> why_not(const Story& story, const std::string& rank) {
  std::vector<std::string> out;
  const std::map<RankId, std::string> all = candidates_of(story);
  const bool is_name =
      std::any_of(all.begin(), all.end(), [&](const auto& item) { return item.second == rank; });
  for (const StoryDecision& decision : story.decisions) {
    for (const StoryCandidate& candidate : decision.candidates) {
      const std::string& known =
          is_name ? candidate.name : std::to_string(raw(candidate.rank.rank));
      if (known != rank) continue;
      out.push_back(duration_text(decision.at_us) + ", " + decision.kind + " " + decision.policy +
                    ": " + verdict(decision, candidate));
    }
  }
  return out;
}

} // namespace troupe::sched
