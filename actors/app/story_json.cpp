#include "actors/app/story_json.hpp"

#include <nlohmann/json.hpp>

namespace troupe::app {

namespace {

using Json = nlohmann::ordered_json;

Json span_json(const sched::StorySpan& span) {
  Json out;
  out["from_us"] = span.from_us;
  out["to_us"] = span.to_us;
  out["what"] = span.what;
  out["why"] = span.why();
  out["phase"] = span.phase ? Json(std::string(sched::phase_name(*span.phase))) : Json(nullptr);
  out["attempt"] = raw(span.attempt);
  return out;
}

Json candidate_json(const sched::StoryCandidate& candidate) {
  Json out;
  out["rank"] = candidate.name;
  out["score"] = candidate.score ? Json(*candidate.score) : Json(nullptr);
  out["feasible"] = candidate.feasible;
  out["lacks"] = candidate.lacks;
  return out;
}

Json decision_json(const sched::StoryDecision& decision) {
  Json out;
  out["at_us"] = decision.at_us;
  out["kind"] = decision.kind;
  out["policy"] = decision.policy;
  out["epoch"] = raw(decision.epoch);
  out["attempt"] = raw(decision.attempt);
  out["chosen"] = decision.chosen;
  out["reason"] = std::string(sched::reason_name(decision.reason));
  out["view_age_us"] = decision.view_age_us;
  out["canary"] = decision.canary;
  out["candidates"] = Json::array();
  for (const sched::StoryCandidate& candidate : decision.candidates)
    out["candidates"].push_back(candidate_json(candidate));
  return out;
}

} // namespace

std::string story_json(const sched::Story& story) {
  const bool drew = story.ended && story.finish.output_tokens > 0;
  Json out;
  out["request"] = raw(story.request);
  out["custom_id"] = story.custom_id.empty() ? Json(nullptr) : Json(story.custom_id);
  out["latency_us"] = story.latency_us;
  out["ended"] = story.ended;
  out["running"] = story.runs;
  out["code"] = story.ended ? Json(std::string(error_name(story.finish.code))) : Json(nullptr);
  out["detail"] = story.ended ? story.finish.detail : "";
  out["first_token_us"] =
      drew ? Json(story.finish.first_token_us - story.finish.arrival_us) : Json(nullptr);
  out["output_tokens"] = story.ended ? Json(story.finish.output_tokens) : Json(nullptr);
  out["attempts"] = story.ended ? Json(story.finish.attempts) : Json(nullptr);
  out["preemptions"] = story.ended ? Json(story.preemptions()) : Json(nullptr);
  out["missing_entries"] = story.missing;
  out["spans"] = Json::array();
  for (const sched::StorySpan& span : story.spans)
    out["spans"].push_back(span_json(span));
  out["decisions"] = Json::array();
  for (const sched::StoryDecision& decision : story.decisions)
    out["decisions"].push_back(decision_json(decision));
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

} // namespace troupe::app
