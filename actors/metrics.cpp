#include "actors/metrics.hpp"

#include "actors/request_times.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sstream>
#include <string_view>

namespace troupe::actors {

namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;
using Buckets = Histogram::BucketBoundaries;

const Buckets kFirstTokenSeconds = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                    0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                    20,    40,    80,   160,  640,  2560};
const Buckets kPerTokenSeconds = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                  0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
const Buckets kRequestSeconds = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                 30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};

const Buckets kPreemptions = {0, 1, 2, 4, 8, 16, 32};
const Buckets kStepTokens = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};

/// 1, 2, 5, 10, ... up to `last`.
Buckets one_two_five(std::int64_t last) {
  Buckets out;
  for (std::int64_t decade = 1; decade <= last; decade *= 10) {
    for (const std::int64_t factor : {1, 2, 5}) {
      if (decade * factor <= last) out.push_back(static_cast<double>(decade * factor));
    }
  }
  return out;
}

double seconds(std::int64_t us) { return static_cast<double>(us) / 1e6; }

/// What a request that ended is called.
std::string finished_reason(const sched::Finish& finish) {
  if (finish.code == ErrorCode::cancelled) return "abort";
  if (finish.code != ErrorCode::ok) return "error";
  return finish.end == sched::EndReason::length ? "length" : "stop";
}

/// Brings a counter up to a total.
void raise_to(Counter& counter, double total) {
  if (const double missing = total - counter.Value(); missing > 0) counter.Increment(missing);
}

void raise_to(Counter& counter, std::int64_t total) {
  raise_to(counter, static_cast<double>(total));
}

} // namespace

struct Metrics::State {
  prometheus::Registry registry;
  Labels labels; ///< Of what belongs to no single rank.
  std::string model_name;

  Family<Counter>& counters(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  Family<Gauge>& gauges(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
  }
  Histogram& histogram(const char* name, const char* help, const Buckets& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels,
                                                                                     buckets);
  }
  Counter& counter(const char* name, const char* help) { return counters(name, help).Add({}); }

  State(const std::string& model, const std::string& engine, std::int64_t context_max)
      : labels({{"model_name", model}, {"engine", engine}}), model_name(model),
        lengths(one_two_five(context_max)) {
    // A job without any of these has them at 0: a sum over the file never misses one.
    for (const char* reason : {"stop", "length", "abort", "error"})
      success.Add(of_reason(reason));
  }

  void take(const ExpertSample& sample);
  void take(const sched::Emit& emit, std::int64_t now_us);

  Labels of_reason(const std::string& reason) const {
    Labels out = labels;
    out["finished_reason"] = reason;
    return out;
  }
  Labels of_rank(const std::string& rank) const {
    return {{"model_name", model_name}, {"engine", rank}};
  }

  Buckets lengths;
  RequestTimes times;

  // -- requests, one by one
  Family<Counter>& success =
      counters("vllm:request_success_total", "Requests that ended, by how they ended.");
  Histogram& first_token =
      histogram("vllm:time_to_first_token_seconds",
                "From arrival in the driver to the first token.", kFirstTokenSeconds);
  Histogram& per_token =
      histogram("vllm:request_time_per_output_token_seconds",
                "Mean time between the tokens of one answer of two or more.", kPerTokenSeconds);
  Histogram& whole = histogram("vllm:e2e_request_latency_seconds",
                               "From arrival in the driver to the end.", kRequestSeconds);
  Histogram& queued = histogram("vllm:request_queue_time_seconds",
                                "From arrival in the driver to the first chunk.", kRequestSeconds);
  Histogram& prefill = histogram("vllm:request_prefill_time_seconds",
                                 "From the first chunk to the first token.", kRequestSeconds);
  Histogram& decode = histogram("vllm:request_decode_time_seconds",
                                "From the first token to the end.", kRequestSeconds);
  Histogram& inference = histogram("vllm:request_inference_time_seconds",
                                   "From the first chunk to the end.", kRequestSeconds);
  Histogram& token_gaps =
      histogram("vllm:inter_token_latency_seconds",
                "Between tokens of an answer as the driver gets them.", kPerTokenSeconds);
  Histogram& evictions =
      histogram("vllm:request_num_preemptions", "Times a request gave its KV up to an earlier one.",
                kPreemptions);
  Family<Histogram>& step_tokens = prometheus::BuildHistogram()
                                       .Name("vllm:iteration_tokens_total")
                                       .Help("Tokens of a step of a rank, prompts and answers.")
                                       .Register(registry);
  Histogram& prompt_lengths =
      histogram("vllm:request_prompt_tokens", "Prompt tokens of a request.", lengths);
  Histogram& answer_lengths =
      histogram("vllm:request_generation_tokens", "Tokens of an answer.", lengths);
  Histogram& choices =
      histogram("vllm:request_params_n", "Answers that a request asks for.", one_two_five(20));
  Histogram& limits =
      histogram("vllm:request_params_max_tokens", "Tokens an answer may have at most.", lengths);
  Counter& attempts =
      counter("troupe_attempts_total", "Attempts of requests that ended; one each is the least.");

  // -- totals
  Gauge& running =
      gauges("vllm:num_requests_running", "Requests past the queue that have not ended.")
          .Add(labels);
  Gauge& waiting =
      gauges("vllm:num_requests_waiting", "Requests that are rendered and not routed to a rank.")
          .Add(labels);
  Family<Gauge>& waiting_by_reason =
      gauges("vllm:num_requests_waiting_by_reason",
             "The same by reason: for a rank (capacity), or for room in the system (deferred).");
  Counter& prompt_tokens =
      counters("vllm:prompt_tokens_total", "Prompt tokens of answered lines.").Add(labels);
  Counter& output_tokens =
      counters("vllm:generation_tokens_total", "Tokens that ranks drew.").Add(labels);
  Family<Gauge>& kv_usage = gauges("vllm:kv_cache_usage_perc",
                                   "Share of the kv blocks of a rank that sequences hold, 0 to 1.");
  Family<Counter>& preemptions =
      counters("vllm:num_preemptions_total", "Sequences that gave their KV up to earlier ones.");
  Family<Gauge>& kv_facts =
      gauges("vllm:cache_config_info", "Facts of a rank's kv memory as labels; the value is 1.");
  Family<Gauge>& lines =
      gauges("troupe_batch_lines", "Lines of the job that have a result, all runs together.");
  Family<Gauge>& slots_held = gauges("troupe_state_slots_held", "State slots that sequences hold.");
  Family<Counter>& steps = counters("troupe_steps_total", "Engine steps of a rank.");
  Family<Counter>& steps_ahead =
      counters("troupe_steps_ahead_total", "Steps that were planned while the one before ran.");
  Family<Counter>& idle = counters("troupe_idle_seconds_total",
                                   "Time an engine stood still before a step, with work waiting.");
  Family<Counter>& busy = counters("troupe_busy_seconds_total", "Time inside steps of a rank.");
  Counter& messages = counter("troupe_messages_total", "Messages between actors.");
  Counter& unexpected =
      counter("troupe_unexpected_messages_total", "Messages that no handler took.");
  Counter& scheduling =
      counter("troupe_scheduling_seconds_total", "Time inside stages, all actors together.");
  Family<Counter>& decisions =
      counters("troupe_decisions_total", "Decisions of policies, by kind, policy and reason.");
  Family<Counter>& invalid = counters("troupe_invalid_decisions_total",
                                      "Decisions of policies that the default replaced.");
  Family<Counter>& stale =
      counters("troupe_stale_messages_total",
               "Messages of an old attempt, incarnation or handoff that were dropped.");
  Family<Counter>& retries =
      counters("troupe_retries_total", "What a stage tried again: attempts, transfers.");
  Counter& ledger_records =
      counter("troupe_ledger_records_total", "Decisions written to the ledger.");
  Counter& ledger_lost =
      counter("troupe_ledger_lost_records_total", "Entries that the ledger could not keep.");
  Counter& rank_losses = counter("troupe_rank_losses_total", "Times a rank threw, died or hung.");
  Counter& rank_restarts =
      counter("troupe_rank_restarts_total", "Times a lost rank was started again.");
  Gauge& expert_epoch =
      gauges("troupe_expert_epoch", "Number of the live map of experts; 0 = none yet.").Add({});
  Family<Gauge>& expert_balance =
      gauges("troupe_expert_balancedness",
             "Mean over highest GPU load under the map of experts, 0 to 1: predicted, realised.");
  Counter& expert_plans = counter("troupe_expert_plans_total", "Maps of experts published.");
  Counter& expert_moves =
      counter("troupe_expert_moves_total", "Experts that GPUs had to fetch for those.");
  Counter& expert_reports =
      counter("troupe_expert_reports_total", "Expert loads of ranks that were taken over.");
  Counter& expert_bad_layers =
      counter("troupe_expert_bad_layers_total",
              "Layers of such reports that were missing, negative or impossible.");
  Counter& write_failures =
      counter("troupe_metrics_write_failures_total", "Times this file could not be written.");
};

Metrics::Metrics(const std::string& model_name, const std::string& engine, std::int64_t context_max)
    : state_(std::make_unique<State>(model_name, engine, context_max)) {}
Metrics::~Metrics() = default;

void Metrics::arrives(const sched::Arrive& arrive) {
  state_->times.arrives(arrive.request);
  state_->prompt_lengths.Observe(static_cast<double>(arrive.work.prompt.size()));
  state_->choices.Observe(1); // A request of several choices is refused.
  state_->limits.Observe(static_cast<double>(arrive.work.new_tokens_max));
}

void Metrics::finishes(const sched::Finish& finish) {
  State& state = *state_;
  state.success.Add(state.of_reason(finished_reason(finish))).Increment();
  state.attempts.Increment(finish.attempts);
  state.whole.Observe(seconds(finish.end_us - finish.arrival_us));
  state.answer_lengths.Observe(static_cast<double>(finish.output_tokens));
  state.evictions.Observe(static_cast<double>(finish.preemptions));
  const std::optional<std::int64_t> prefill_us = state.times.ends(finish.request);
  if (prefill_us) {
    state.queued.Observe(seconds(*prefill_us - finish.arrival_us));
    state.inference.Observe(seconds(finish.end_us - *prefill_us));
  }
  if (finish.output_tokens == 0) return;
  if (prefill_us) state.prefill.Observe(seconds(finish.first_token_us - *prefill_us));
  const std::int64_t decode_us = finish.end_us - finish.first_token_us;
  state.first_token.Observe(seconds(finish.first_token_us - finish.arrival_us));
  state.decode.Observe(seconds(decode_us));
  if (const std::int64_t gaps = finish.output_tokens - 1; gaps > 0)
    state.per_token.Observe(seconds(decode_us) / static_cast<double>(gaps));
}

void Metrics::State::take(const sched::Emit& emit, std::int64_t now_us) {
  if (emit.rows.empty()) return;
  const auto gap_us = times.gets_tokens(emit.request, now_us);
  if (!gap_us) return;
  const auto tokens = static_cast<double>(emit.rows.size());
  for (std::size_t i = 0; i < emit.rows.size(); ++i)
    token_gaps.Observe(seconds(*gap_us) / tokens);
}

void Metrics::sees(const std::string& stage, const sched::Effects& effects, std::int64_t now_us) {
  State& state = *state_;
  for (const sched::Effect& effect : effects.list()) {
    if (const auto* emit = std::get_if<sched::Emit>(&effect)) {
      state.take(*emit, now_us);
    } else if (const auto* step = std::get_if<sched::RunStep>(&effect)) {
      state.step_tokens.Add(state.of_rank(stage), kStepTokens)
          .Observe(static_cast<double>(step->tokens()));
    } else if (const auto* milestone = std::get_if<sched::Milestone>(&effect)) {
      if (milestone->phase == sched::Phase::prefilling)
        state.times.begins_prefill(milestone->ref.request, now_us);
    }
  }
}

void Metrics::State::take(const ExpertSample& sample) {
  expert_epoch.Set(static_cast<double>(sample.epoch));
  const auto balance = [&](const char* which, std::int64_t permille) {
    if (permille < 0) return; // Not known yet is no value.
    expert_balance.Add({{"of", which}}).Set(static_cast<double>(permille) / 1000);
  };
  balance("predicted", sample.predicted_permille);
  balance("realised", sample.realised_permille);
  raise_to(expert_plans, sample.plans);
  raise_to(expert_moves, sample.moves);
  raise_to(expert_reports, sample.reports);
  raise_to(expert_bad_layers, sample.bad_layers);
}

void Metrics::sample(const MetricsSample& sample) {
  State& state = *state_;
  state.take(sample.experts);
  state.lines.Add({{"result", "succeeded"}}).Set(static_cast<double>(sample.lines_succeeded));
  state.lines.Add({{"result", "failed"}}).Set(static_cast<double>(sample.lines_failed));
  state.running.Set(static_cast<double>(sample.requests_running));
  state.waiting.Set(static_cast<double>(sample.requests_waiting));
  const auto waiting_for = [&](const char* reason, std::int64_t requests) {
    Labels labels = state.labels;
    labels["reason"] = reason;
    state.waiting_by_reason.Add(labels).Set(static_cast<double>(requests));
  };
  waiting_for("capacity", sample.requests_waiting - sample.requests_deferred);
  waiting_for("deferred", sample.requests_deferred);
  raise_to(state.prompt_tokens, sample.prompt_tokens);
  raise_to(state.output_tokens, sample.output_tokens);
  raise_to(state.messages, sample.messages);
  raise_to(state.unexpected, sample.unexpected_messages);
  raise_to(state.scheduling, static_cast<double>(sample.scheduling_ns) / 1e9);
  raise_to(state.ledger_records, sample.ledger_records);
  raise_to(state.ledger_lost, sample.ledger_lost);
  raise_to(state.rank_losses, sample.rank_losses);
  raise_to(state.rank_restarts, sample.rank_restarts);
  raise_to(state.write_failures, sample.write_failures);
  for (const StageSample& stage : sample.stages) {
    const Labels labels = {{"stage", stage.name}};
    raise_to(state.stale.Add(labels), stage.stale_dropped);
    raise_to(state.invalid.Add(labels), stage.invalid_decisions);
    raise_to(state.retries.Add(labels), stage.retried);
    for (const DecisionCount& one : stage.decisions) {
      const std::string reason(sched::reason_name(one.reason));
      raise_to(state.decisions.Add({{"stage", stage.name},
                                    {"kind", one.kind},
                                    {"policy", one.policy},
                                    {"reason", reason}}),
               one.count);
    }
  }
  for (const RankSample& rank : sample.ranks) {
    const Labels labels = state.of_rank(rank.name);
    const double total = static_cast<double>(rank.kv_blocks_total);
    state.kv_usage.Add(labels).Set(total > 0 ? static_cast<double>(rank.kv_blocks_held) / total
                                             : 0);
    raise_to(state.preemptions.Add(labels), rank.preempted);
    Labels facts = labels;
    facts["block_size"] = std::to_string(rank.block_tokens);
    facts["num_gpu_blocks"] = std::to_string(rank.kv_blocks_total);
    state.kv_facts.Add(facts).Set(1);
    state.slots_held.Add({{"rank", rank.name}}).Set(static_cast<double>(rank.slots_held));
    raise_to(state.steps.Add({{"rank", rank.name}}), rank.steps);
    raise_to(state.steps_ahead.Add({{"rank", rank.name}}), rank.steps_ahead);
    raise_to(state.idle.Add({{"rank", rank.name}}), seconds(rank.idle_us));
    raise_to(state.busy.Add({{"rank", rank.name}}), seconds(rank.busy_us));
  }
}

std::string Metrics::text() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, state_->registry.Collect());
  return out.str();
}

} // namespace troupe::actors
