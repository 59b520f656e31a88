// The registry and the totals of stages, on values built by hand.

#include "actors/metrics.hpp"
#include "schedulers/stage/prefill_stage.hpp"
#include "tests/support/prometheus_text.hpp"

#include <gtest/gtest.h>

namespace troupe::actors {
namespace {

sched::Record decision(const char* kind, const char* policy, sched::Reason reason) {
  sched::Record record;
  record.kind = kind;
  record.policy = policy;
  record.reason = reason;
  return record;
}

TEST(StageTotals, AddUpOverTheLivesOfOneName) {
  StageTable table;
  sched::PrefillCounts counts;
  counts.waiting = 3;
  counts.stale_dropped = 5;
  counts.invalid_decisions = 1;
  StagePublished first_life;
  table.of("prefill")->publish(counts, first_life);
  table.of("prefill")->publish(counts, first_life);
  EXPECT_EQ(table.of("prefill")->stale_dropped, 5) << "what did not change adds nothing";
  counts.stale_dropped = 2;
  counts.waiting = 1;
  StagePublished second_life;
  table.of("prefill")->publish(counts, second_life);
  EXPECT_EQ(table.of("prefill")->stale_dropped, 7);
  EXPECT_EQ(table.of("prefill")->invalid_decisions, 2);
  EXPECT_EQ(table.of("prefill")->waiting, 1) << "a queue is as long as it is";
  EXPECT_EQ(table.all().size(), 1U);
}

TEST(StageTotals, CountDecisionsByKindPolicyAndReason) {
  StageTotals totals;
  sched::Effects effects;
  effects.add(decision("queue", "fcfs", sched::Reason::in_order));
  effects.timer(sched::TimerKind::retry, 0, 0);
  effects.add(decision("queue", "fcfs", sched::Reason::in_order));
  effects.add(decision("queue", "fcfs", sched::Reason::replaced_invalid));
  effects.add(decision("queue", "sjf", sched::Reason::in_order));
  totals.count_decisions(effects);
  const std::vector<DecisionCount> decisions = totals.decisions();
  ASSERT_EQ(decisions.size(), 3U);
  EXPECT_EQ(decisions[0].policy, "fcfs");
  EXPECT_EQ(decisions[0].reason, sched::Reason::in_order);
  EXPECT_EQ(decisions[0].count, 2);
  EXPECT_EQ(decisions[1].count, 1);
  EXPECT_EQ(decisions[2].policy, "sjf");
}

MetricsSample sample() {
  MetricsSample out;
  out.lines_succeeded = 7;
  out.lines_failed = 2;
  out.requests_running = 3;
  out.requests_waiting = 4;
  out.requests_deferred = 1;
  out.prompt_tokens = 100;
  out.output_tokens = 50;
  out.messages = 1'234'567'890'123;
  out.scheduling_ns = 1'500'000'000;
  out.ledger_lost = 6;
  out.rank_losses = 4;
  out.rank_restarts = 3;
  out.experts = {4, 980, -1, 30, 2, 4, 77};
  out.stages.push_back({"prefill", 5, 1, 0, {{"queue", "fcfs", sched::Reason::in_order, 9}}});
  out.ranks.push_back({"decode-0", 3, 12, 64, 1, 8, 20, 2'500'000, 11});
  return out;
}

TEST(MetricsRegistry, SaysWhatTheSampleSays) {
  Metrics metrics("a \"model\"\\\n", "local", 1000);
  metrics.sample(sample());
  const test::PrometheusText text = test::read_prometheus_text(metrics.text());
  for (const std::string& fault : text.faults)
    ADD_FAILURE() << fault;
  EXPECT_EQ(text.at("troupe_batch_lines{result=\"succeeded\"}"), 7);
  EXPECT_EQ(text.sum("vllm:num_requests_running", R"(model_name="a \"model\"\\\n")"), 3);
  EXPECT_EQ(text.sum("vllm:num_requests_waiting", "engine=\"local\""), 4);
  EXPECT_EQ(text.sum("vllm:num_requests_waiting_by_reason", "reason=\"capacity\""), 3);
  EXPECT_EQ(text.sum("vllm:num_requests_waiting_by_reason", "reason=\"deferred\""), 1);
  EXPECT_EQ(text.at("troupe_messages_total"), 1'234'567'890'123.0) << "no digit is lost";
  EXPECT_EQ(text.at("troupe_scheduling_seconds_total"), 1.5);
  EXPECT_EQ(text.at("troupe_ledger_lost_records_total"), 6);
  EXPECT_EQ(text.at("troupe_rank_losses_total"), 4);
  EXPECT_EQ(text.at("troupe_rank_restarts_total"), 3);
  EXPECT_EQ(text.at("troupe_stale_messages_total{stage=\"prefill\"}"), 5);
  EXPECT_EQ(text.at(R"(troupe_decisions_total{kind="queue",policy="fcfs",reason="in_order",)"
                    R"(stage="prefill"})"),
            9);
  EXPECT_EQ(text.sum("vllm:kv_cache_usage_perc", "engine=\"decode-0\""), 0.25);
  EXPECT_EQ(text.sum("vllm:cache_config_info", "num_gpu_blocks=\"12\""), 1);
  EXPECT_EQ(text.sum("vllm:num_preemptions_total", "engine=\"decode-0\""), 11);
  EXPECT_EQ(text.at("troupe_busy_seconds_total{rank=\"decode-0\"}"), 2.5);
  EXPECT_EQ(text.at("troupe_expert_epoch"), 4);
  EXPECT_EQ(text.at("troupe_expert_balancedness{of=\"predicted\"}"), 0.98);
  EXPECT_FALSE(text.samples.contains("troupe_expert_balancedness{of=\"realised\"}")) << "not known";
  EXPECT_EQ(text.at("troupe_expert_plans_total"), 4);
  EXPECT_EQ(text.at("troupe_expert_moves_total"), 77);
  EXPECT_EQ(text.at("troupe_expert_reports_total"), 30);
  EXPECT_EQ(text.at("troupe_expert_bad_layers_total"), 2);
}

TEST(MetricsRegistry, CountersDoNotFallAndGaugesDo) {
  Metrics metrics("m", "local", 1000);
  metrics.sample(sample());
  metrics.sample(sample());
  MetricsSample less = sample();
  less.messages = 5;
  less.requests_running = 0;
  metrics.sample(less);
  const test::PrometheusText text = test::read_prometheus_text(metrics.text());
  EXPECT_EQ(text.at("troupe_messages_total"), 1'234'567'890'123.0);
  EXPECT_EQ(text.sum("vllm:num_requests_running"), 0);
}

TEST(MetricsRegistry, ObservesRequests) {
  Metrics metrics("m", "local", 20'000);
  sched::Arrive arrive;
  arrive.work.prompt.resize(150);
  arrive.work.new_tokens_max = 16;
  metrics.arrives(arrive);
  sched::Finish finish;
  finish.arrival_us = 1'000'000;
  finish.first_token_us = 1'030'000;
  finish.end_us = 1'330'000;
  finish.output_tokens = 4;
  finish.attempts = 2;
  finish.end = sched::EndReason::length;
  metrics.finishes(finish);
  sched::Finish failed;
  failed.code = ErrorCode::deadline;
  failed.end_us = 10;
  metrics.finishes(failed);
  const test::PrometheusText text = test::read_prometheus_text(metrics.text());
  for (const std::string& fault : text.faults)
    ADD_FAILURE() << fault;
  EXPECT_EQ(text.sum("vllm:time_to_first_token_seconds_count"), 1) << "of answers only";
  EXPECT_EQ(text.sum("vllm:time_to_first_token_seconds_bucket", "le=\"0.02\""), 0);
  EXPECT_EQ(text.sum("vllm:time_to_first_token_seconds_bucket", "le=\"0.04\""), 1);
  EXPECT_NEAR(text.sum("vllm:request_time_per_output_token_seconds_sum"), 0.1, 1e-9);
  EXPECT_EQ(text.sum("vllm:e2e_request_latency_seconds_count"), 2);
  EXPECT_EQ(text.sum("vllm:request_prompt_tokens_bucket", "le=\"100\""), 0);
  EXPECT_EQ(text.sum("vllm:request_prompt_tokens_bucket", "le=\"200\""), 1);
  EXPECT_EQ(text.sum("vllm:request_success_total", "\"length\""), 1);
  EXPECT_EQ(text.sum("vllm:request_success_total", "\"error\""), 1);
  EXPECT_EQ(text.at("troupe_attempts_total"), 3);
}

sched::Effects milestone(RequestId request, sched::Phase phase) {
  sched::Effects effects;
  effects.add(sched::Milestone{{request, Attempt{1}}, phase, {}, 0, {}});
  return effects;
}

sched::Effects tokens(RequestId request, std::size_t count) {
  sched::Effects effects;
  effects.add(sched::Emit{request, std::vector<sched::TokenRow>(count)});
  return effects;
}

// Arrives at 1.0 s, first chunk at 1.4 s, tokens at 2.0, 2.3 and two at 2.5 s, ends at 2.6 s.
TEST(MetricsRegistry, SplitsALifeAtItsFirstChunkAndItsTokens) {
  constexpr RequestId kRequest{7};
  Metrics metrics("m", "local", 1000);
  sched::Arrive arrive;
  arrive.request = kRequest;
  metrics.arrives(arrive);
  metrics.sees("prefill", milestone(kRequest, sched::Phase::waits_for_step), 1'200'000);
  metrics.sees("prefill", milestone(kRequest, sched::Phase::prefilling), 1'400'000);
  metrics.sees("prefill", milestone(kRequest, sched::Phase::prefilling), 1'900'000); // 2nd attempt
  metrics.sees("driver", tokens(kRequest, 1), 2'000'000);
  metrics.sees("driver", tokens(kRequest, 1), 2'300'000);
  metrics.sees("driver", tokens(kRequest, 2), 2'500'000);
  sched::Finish finish;
  finish.request = kRequest;
  finish.arrival_us = 1'000'000;
  finish.first_token_us = 2'000'000;
  finish.end_us = 2'600'000;
  finish.output_tokens = 4;
  finish.preemptions = 2;
  metrics.finishes(finish);
  metrics.sees("prefill", milestone(kRequest, sched::Phase::prefilling), 3'000'000); // too late
  metrics.finishes(finish); // Nothing is known of it any more.
  const test::PrometheusText text = test::read_prometheus_text(metrics.text());
  for (const std::string& fault : text.faults)
    ADD_FAILURE() << fault;
  EXPECT_EQ(text.sum("vllm:request_queue_time_seconds_count"), 1);
  EXPECT_NEAR(text.sum("vllm:request_queue_time_seconds_sum"), 0.4, 1e-9);
  EXPECT_NEAR(text.sum("vllm:request_prefill_time_seconds_sum"), 0.6, 1e-9);
  EXPECT_NEAR(text.sum("vllm:request_inference_time_seconds_sum"), 1.2, 1e-9);
  EXPECT_EQ(text.sum("vllm:inter_token_latency_seconds_count"), 3);
  EXPECT_NEAR(text.sum("vllm:inter_token_latency_seconds_sum"), 0.5, 1e-9);
  EXPECT_EQ(text.sum("vllm:inter_token_latency_seconds_bucket", "le=\"0.1\""), 2);
  EXPECT_EQ(text.sum("vllm:request_num_preemptions_sum"), 4);
}

TEST(MetricsRegistry, CountsTheTokensOfSteps) {
  Metrics metrics("m", "local", 1000);
  sched::RunStep step;
  step.entries.resize(2);
  step.entries[0].count = 60;
  step.entries[1].count = 1;
  sched::Effects effects;
  effects.add(step);
  metrics.sees("prefill-0", effects, 0);
  const test::PrometheusText text = test::read_prometheus_text(metrics.text());
  EXPECT_EQ(text.sum("vllm:iteration_tokens_total_sum", "engine=\"prefill-0\""), 61);
  EXPECT_EQ(text.sum("vllm:iteration_tokens_total_count"), 1);
}

} // namespace
} // namespace troupe::actors
