#include "actors/app/bench_abi.hpp"

#include "schedulers/core/check.hpp"

#include <string>
#include <utility>

namespace troupe::app {

namespace {

/// The lowest score with room; of equal ones the first.
template <class Score>
std::int32_t lowest(const troupe_request_view* request, const troupe_array& ranks,
                    troupe_placement_answer* answer, const Score& score_of) {
  std::int64_t best = 0;
  std::size_t chosen = ranks.n;
  for (std::size_t i = 0; i < ranks.n; ++i) {
    const troupe_rank_view* rank = troupe_rank_at(&ranks, i);
    const std::int64_t score = score_of(*rank);
    answer->scores[i] = score;
    if (troupe_has_room(request, rank) == 0) continue;
    if (chosen < ranks.n && score >= best) continue;
    chosen = i;
    best = score;
  }
  answer->scored = 1;
  answer->reason = TROUPE_REASON_NO_ROOM;
  if (chosen == ranks.n) return TROUPE_NONE;
  answer->rank = troupe_rank_at(&ranks, chosen)->rank;
  answer->reason = TROUPE_REASON_LOWEST_SCORE;
  return TROUPE_DONE;
}

std::int32_t route(void* /*self*/, const troupe_router_question* question,
                   const troupe_call* /*call*/, troupe_placement_answer* answer) {
  return lowest(question->request, question->ranks, answer,
                [](const troupe_rank_view& rank) { return rank.work_ps; });
}

std::int32_t place(void* /*self*/, const troupe_balancer_question* question,
                   const troupe_call* call, troupe_placement_answer* answer) {
  return lowest(question->request, question->ranks, answer, [&](const troupe_rank_view& rank) {
    return call->host->decode_load_ps(call->cost_model, rank.running, rank.context_tokens);
  });
}

template <class Kind>
std::unique_ptr<Kind> behind_abi(const char* kind, const void* table,
                                 const sched::RunnerMaker& runner) {
  sched::PluginPolicy row{kind, "bench", "", {}};
  row.policy.struct_size = sizeof row.policy;
  row.policy.create = [](const char*, std::size_t, char*, std::size_t) -> void* {
    static char self;
    return &self;
  };
  row.policy.destroy = [](void*) {};
  row.policy.table = table;
  auto made = sched::make_plugin_policy(row, nullptr, "{}", {1'000'000, 60'000}, runner);
  TROUPE_CHECK(made.ok(), "a policy without options is made");
  auto* of_kind = dynamic_cast<Kind*>(made->get());
  TROUPE_CHECK(of_kind != nullptr, "a policy is of the kind it was made as");
  static_cast<void>(made->release());
  return std::unique_ptr<Kind>(of_kind);
}

} // namespace

std::unique_ptr<sched::PrefillRouter> router_behind_abi(const sched::RunnerMaker& runner) {
  static constexpr troupe_prefill_router table{sizeof(troupe_prefill_router), 0, route};
  return behind_abi<sched::PrefillRouter>("prefill_router", &table, runner);
}

std::unique_ptr<sched::DecodeBalancer> balancer_behind_abi(const sched::RunnerMaker& runner) {
  static constexpr troupe_decode_balancer table{sizeof(troupe_decode_balancer), 0, place};
  return behind_abi<sched::DecodeBalancer>("decode_balancer", &table, runner);
}

} // namespace troupe::app
