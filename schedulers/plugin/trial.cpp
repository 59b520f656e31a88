#include "schedulers/plugin/trial.hpp"

#include "schedulers/core/check.hpp"
#include "schedulers/policy/questions.hpp"

#include <cstdint>
#include <vector>

namespace troupe::sched {
namespace {

constexpr std::int64_t kStepTokens = 512;

QuestionContext context_of(std::uint64_t number) {
  QuestionContext context;
  context.now_us = 1'000'000 + static_cast<std::int64_t>(number) * 1000;
  context.seed = number;
  context.epoch = PolicyEpoch{1};
  context.step_budget_ps = 100'000'000'000;
  return context;
}

RequestView request_of(std::uint64_t id) {
  RequestView view;
  view.ref = {RequestId{id}, Attempt{1}};
  view.session_hash = mix64(id);
  view.tenant_hash = id % 2;
  view.arrival_us = static_cast<std::int64_t>(id) * 10;
  view.prompt = 100 + static_cast<std::int64_t>(id) * 37;
  view.new_tokens_max = 64;
  view.work_ps = CostModel{}.marginal_ps(view.prompt, 0);
  return view;
}

std::vector<RequestView> requests_of(std::uint64_t count) {
  std::vector<RequestView> views;
  for (std::uint64_t id = 1; id <= count; ++id)
    views.push_back(request_of(id));
  return views;
}

std::vector<RankView> ranks_of(std::uint32_t count, Role role, std::int64_t kv_blocks_free) {
  std::vector<RankView> views;
  for (std::uint32_t id = 0; id < count; ++id) {
    RankView view;
    view.rank = {RankId{id}, Incarnation{1}};
    view.role = role;
    view.block_tokens = 64;
    view.kv_blocks_total = 1000;
    view.kv_blocks_free = kv_blocks_free;
    view.slots_total = 64;
    view.slots_free = kv_blocks_free > 0 ? 32 : 0;
    view.running = (count - id) * 3;
    view.context_tokens = view.running * 200;
    view.work_ps = view.running * 1'000'000'000;
    view.as_of_us = 1'000'000;
    views.push_back(view);
  }
  return views;
}

/// What an answer of the kind broke, by the policy's own words when it has some.
template <class Question>
Status put(Policy& policy, const Question& question, const char* what) {
  auto* of_kind = dynamic_cast<typename Question::Kind*>(&policy);
  TROUPE_CHECK(of_kind != nullptr, "a policy is tried as what it is");
  const auto answer = ask(*of_kind, question);
  const Status valid = question.check(answer);
  if (valid.ok()) return {};
  const std::string why = policy.failure();
  return Status(ErrorCode::unsupported, std::string("asked about ") + what + ": " +
                                            (why.empty() ? valid.error().message : why));
}

Status try_queue(Policy& policy) {
  const std::vector<RequestView> waiting = requests_of(5);
  auto& queue = dynamic_cast<QueuePolicy&>(policy);
  for (const RequestView& request : waiting)
    observe(queue, QueueObservation{context_of(1), request, QueueEvent::entered});
  if (auto s = put(policy, QueueQuestion{context_of(2), {waiting[0]}}, "one request"); !s.ok()) {
    return s;
  }
  if (auto s = put(policy, QueueQuestion{context_of(3), waiting}, "five requests"); !s.ok()) {
    return s;
  }
  observe(queue, QueueObservation{context_of(4), waiting[0], QueueEvent::served});
  observe(queue, QueueObservation{context_of(5), waiting[0], QueueEvent::returned});
  observe(queue, QueueObservation{context_of(6), waiting[0], QueueEvent::left});
  return put(policy, QueueQuestion{context_of(7), {waiting.begin() + 1, waiting.end()}},
             "four requests");
}

template <class Question>
Question placement(std::uint64_t number, std::vector<RankView> ranks) {
  Question question;
  question.context = context_of(number);
  question.request = request_of(number);
  question.ranks = std::move(ranks);
  return question;
}

template <class Question>
Status try_placement(Policy& policy, Role role) {
  const auto one = placement<Question>(1, ranks_of(1, role, 500));
  if (auto s = put(policy, one, "one rank"); !s.ok()) return s;
  const auto three = placement<Question>(2, ranks_of(3, role, 500));
  if (auto s = put(policy, three, "three ranks"); !s.ok()) return s;
  return put(policy, placement<Question>(3, ranks_of(3, role, 0)), "ranks without room");
}

Status try_chunker(Policy& policy) {
  const auto& chunker = dynamic_cast<const PrefillChunker&>(policy);
  const PackQuery query{{RankId{1}, Incarnation{1}}, kStepTokens};
  const std::int64_t budget_ps = chunker.step_budget_ps(CostModel{}, kStepTokens);
  if (const std::string why = policy.failure(); !why.empty()) {
    return Status(ErrorCode::unsupported, why);
  }
  ChunkerQuestion question{context_of(1), query, requests_of(1)};
  question.context.step_budget_ps = budget_ps;
  if (auto s = put(policy, question, "one request"); !s.ok()) return s;
  question.requests = requests_of(5);
  return put(policy, question, "five requests");
}

Status try_step(Policy& policy) {
  StepQuestion question;
  question.context = context_of(1);
  question.step_tokens_max = kStepTokens;
  for (std::uint64_t id = 1; id <= 3; ++id)
    question.decodes.push_back({{RequestId{id}, Attempt{1}}, static_cast<std::int64_t>(id) * 50});
  if (auto s = put(policy, question, "three sequences"); !s.ok()) return s;
  for (std::uint64_t id = 4; id <= 5; ++id)
    question.slices.push_back({{RequestId{id}, Attempt{1}}, 0, 300});
  return put(policy, question, "three sequences and two slices");
}

Status try_admission(Policy& policy) {
  AdmissionQuestion question{context_of(1), request_of(1), {}};
  if (auto s = put(policy, question, "an idle system"); !s.ok()) return s;
  question.load = {100, 50'000, 5'000'000'000'000, 2, 1'000'000};
  question.request.deadline_us = question.context.now_us + 1000;
  return put(policy, question, "a busy system");
}

Status try_handoff(Policy& policy) {
  HandoffQuestion question{context_of(1), {request_of(1), {RankId{1}, Incarnation{1}}, 0, 0, 0}};
  if (auto s = put(policy, question, "a first handoff"); !s.ok()) return s;
  question.query.transfers = 5;
  question.query.transfers_of_source = 2;
  return put(policy, question, "one handoff of many");
}

Status try_overlap(Policy& policy) {
  OverlapQuestion question;
  question.context = context_of(1);
  question.view = {5'000'000'000, 100'000'000, 0, 3, 0, 1, 0, 4, 100, 0};
  if (auto s = put(policy, question, "an idle rank"); !s.ok()) return s;
  question.view.plans_held = 1;
  if (auto s = put(policy, question, "a step that runs"); !s.ok()) return s;
  question.view.blocks_free = 0;
  return put(policy, question, "a step that runs, and no free block");
}

} // namespace

Status try_policy(const std::string& kind, Policy& policy) {
  if (kind == QueueQuestion::kKind) return try_queue(policy);
  if (kind == RouterQuestion::kKind) return try_placement<RouterQuestion>(policy, Role::prefill);
  if (kind == BalancerQuestion::kKind) {
    return try_placement<BalancerQuestion>(policy, Role::decode);
  }
  if (kind == ChunkerQuestion::kKind) return try_chunker(policy);
  if (kind == StepQuestion::kKind) return try_step(policy);
  if (kind == AdmissionQuestion::kKind) return try_admission(policy);
  if (kind == OverlapQuestion::kKind) return try_overlap(policy);
  TROUPE_CHECK(kind == HandoffQuestion::kKind, "kinds of a library are checked when it is read");
  return try_handoff(policy);
}

} // namespace troupe::sched
