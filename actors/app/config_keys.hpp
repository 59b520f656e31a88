// Every key of the system file once, in file order: name, place in the struct, range.
//
// Reading, showing and checking configs/local.toml are visitors of this list.

#pragma once

#include "actors/app/system_config.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

namespace troupe::app {

/// Whole numbers allowed for a key, both ends included.
struct IntegerRange {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
};

/// Real numbers allowed for a key, both ends included.
struct RealRange {
  double lowest = 0.0;
  double highest = 0.0;
};

inline constexpr IntegerRange kPicoseconds = {0, 1'000'000'000'000'000};
inline constexpr IntegerRange kSeconds = {1, 31'536'000};
inline constexpr IntegerRange kSecondsOrNone = {0, 31'536'000};
inline constexpr IntegerRange kSampledTokens = {1, 393'216};

inline constexpr std::array<std::pair<std::string_view, sched::Role>, 3> kRoleNames = {
    {{"prefill", sched::Role::prefill},
     {"decode", sched::Role::decode},
     {"both", sched::Role::both}}};
inline constexpr std::array<std::pair<std::string_view, sched::Reservation>, 2> kReserveNames = {
    {{"expected", sched::Reservation::expected}, {"worst", sched::Reservation::worst}}};
inline constexpr std::array<std::pair<std::string_view, JournalSync>, 2> kSyncNames = {
    {{"batch", JournalSync::batch}, {"line", JournalSync::line}}};

/// A visitor has text, choice, path, boolean, integer, size, real, real_or_model and names; each
/// takes the key, the value and what is allowed.
template <class CostModel, class Visitor>
void visit_cost_model(CostModel& cost, Visitor& visitor) {
  visitor.integer("step", cost.model.step_ps, kPicoseconds);
  visitor.integer("token", cost.model.token_ps, kPicoseconds);
  visitor.integer("pair", cost.model.pair_ps, kPicoseconds);
  visitor.integer("sequence", cost.model.sequence_ps, kPicoseconds);
  visitor.integer("context_token", cost.model.context_token_ps, kPicoseconds);
  visitor.real("null_speed", cost.null_speed, RealRange{0.0, 1000.0});
}

/// The keys of one [[rank]] but its cost model.
template <class Group, class Visitor>
void visit_rank(Group& group, Visitor& visitor) {
  visitor.text("name", group.name);
  visitor.names("role", group.role, kRoleNames);
  visitor.integer("count", group.count, IntegerRange{1, 1024});
  visitor.choice("device", group.device, {"cpu", "null"});
  visitor.integer("threads", group.threads, IntegerRange{1, 1024});
}

template <class Limits, class Visitor>
void visit_limits(Limits& limits, Visitor& visitor) {
  visitor.integer("requests_max", limits.requests_max, IntegerRange{1, 1'000'000});
  visitor.integer("sequences_max", limits.sequences_max, IntegerRange{1, 65'536});
  visitor.integer("step_tokens_max", limits.step_tokens_max, IntegerRange{1, 1'000'000});
  visitor.integer("request_timeout_s", limits.request_timeout_s, kSecondsOrNone);
  visitor.integer("no_progress_s", limits.no_progress_s, kSeconds);
  visitor.integer("stuck_after_s", limits.stuck_after_s, kSeconds);
  visitor.integer("stop_grace_s", limits.stop_grace_s, kSecondsOrNone);
  visitor.integer("choices_max", limits.choices_max, IntegerRange{1, 65'536});
  visitor.integer("preemptions_max", limits.preemptions_max, IntegerRange{0, 1000});
  visitor.integer("inflight_max", limits.inflight_max, IntegerRange{1, 1'000'000});
  visitor.size("line_bytes_max", limits.line_bytes_max, IntegerRange{1024, 1LL << 30});
  visitor.integer("attempts_max", limits.attempts_max, IntegerRange{1, 1000});
  visitor.integer("lease_ms", limits.lease_ms, IntegerRange{100, 3'600'000});
  visitor.integer("rank_restarts_max", limits.rank_restarts_max, IntegerRange{0, 1'000'000});
  visitor.integer("heartbeat_ms", limits.heartbeat_ms, IntegerRange{10, 60'000});
  visitor.integer("invalid_decisions_max", limits.invalid_decisions_max,
                  IntegerRange{0, 1'000'000});
}

template <class Sampling, class Visitor>
void visit_sampling(Sampling& sampling, Visitor& visitor) {
  visitor.real_or_model("temperature", sampling.temperature, RealRange{0.0, 2.0});
  visitor.real_or_model("top_p", sampling.top_p, RealRange{0.000001, 1.0});
  visitor.integer("top_k", sampling.top_k, IntegerRange{0, 1'000'000});
  visitor.boolean("thinking", sampling.thinking);
  visitor.integer("max_tokens_chat", sampling.max_tokens_chat, kSampledTokens);
  visitor.integer("max_tokens_thinking", sampling.max_tokens_thinking, kSampledTokens);
  visitor.integer("max_tokens_effort_max", sampling.max_tokens_effort_max, kSampledTokens);
  visitor.integer("max_tokens_completion", sampling.max_tokens_completion, kSampledTokens);
  visitor.boolean("reject_missing_reasoning", sampling.reject_missing_reasoning);
}

/// All tables but [[rank]]. Before the keys of a table comes visitor.table(name).
template <class Config, class Visitor>
void visit_tables(Config& config, Visitor& visitor) {
  visitor.table("cluster");
  visitor.text("name", config.cluster.name);
  visitor.integer("seed", config.cluster.seed,
                  IntegerRange{0, std::numeric_limits<std::int64_t>::max()});
  visitor.table("model");
  visitor.path("path", config.model.path);
  visitor.choice("activation_quant", config.model.activation_quant, {"checkpoint", "off"});
  visitor.integer("context_max", config.model.context_max, IntegerRange{0, 1LL << 24});
  visitor.choice("cpu_path", config.model.cpu_path, {"auto", "scalar", "avx2"});
  visitor.table("sampling");
  visit_sampling(config.sampling, visitor);
  visitor.table("kv");
  visitor.integer("block_tokens", config.kv.block_tokens, IntegerRange{1, 65'536});
  visitor.size("memory", config.kv.memory_bytes, IntegerRange{65'536, 1LL << 50});
  visitor.names("reserve", config.kv.reserve, kReserveNames);
  visitor.real("reserve_quantile", config.kv.reserve_quantile, RealRange{0.01, 1.0});
  visitor.table("cost_model");
  visit_cost_model(config.cost_model, visitor);
  visitor.table("experts");
  visitor.integer("interval_ms", config.experts.interval_ms, IntegerRange{0, 86'400'000});
  visitor.integer("gpus", config.experts.gpus, IntegerRange{0, 4096});
  visitor.integer("slots", config.experts.slots, IntegerRange{0, 65'536});
  visitor.table("limits");
  visit_limits(config.limits, visitor);
  visitor.table("policies");
  visitor.path("file", config.policies_file);
  visitor.integer("swap_timeout_ms", config.swap_timeout_ms, IntegerRange{10, 3'600'000});
  visitor.table("control");
  visitor.path("socket", config.control_socket);
  visitor.table("ledger");
  visitor.choice("level", config.ledger.level, {"off", "decisions", "events"});
  visitor.path("directory", config.ledger.directory);
  visitor.size("size_max", config.ledger.size_max_bytes, IntegerRange{65'536, 1LL << 50});
  visitor.table("journal");
  visitor.names("sync", config.journal.sync, kSyncNames);
  visitor.integer("flush_ms", config.journal.flush_ms, IntegerRange{1, 60'000});
  visitor.table("metrics");
  visitor.path("file", config.metrics.file);
  visitor.integer("interval_s", config.metrics.interval_s, IntegerRange{1, 86'400});
  visitor.table("log");
  visitor.choice("level", config.log_level, {"trace", "debug", "info", "warn", "error"});
}

} // namespace troupe::app
