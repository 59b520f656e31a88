// The system file as plain data; the defaults here are what configs/local.toml spells out.
//
// Units stand last in each name. Ranges and texts of the keys: config_keys.hpp.

#pragma once

#include "schedulers/model/cost_model.hpp"
#include "schedulers/model/request_view.hpp"
#include "schedulers/model/role.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::app {

struct ClusterConfig {
  std::string name = "local";
  std::int64_t seed = 1; ///< The only source of randomness of policies and stages.
  bool operator==(const ClusterConfig&) const = default;
};

struct ModelConfig {
  std::string path; ///< Checkpoint folder, resolved; "" = none given.
  std::string activation_quant = "checkpoint";
  std::int64_t context_max = 0; ///< Tokens; 0 = what the checkpoint says.
  std::string cpu_path = "auto";
  bool operator==(const ModelConfig&) const = default;
};

/// For fields that a request leaves out.
struct SamplingConfig {
  std::optional<double> temperature; ///< None: the checkpoint's generation_config.json.
  std::optional<double> top_p;       ///< None: the checkpoint's generation_config.json.
  std::int64_t top_k = 0;            ///< 0 = no limit.
  bool thinking = true;
  std::int64_t max_tokens_chat = 8192;
  std::int64_t max_tokens_thinking = 65536;
  std::int64_t max_tokens_effort_max = 131072;
  std::int64_t max_tokens_completion = 16;
  bool reject_missing_reasoning = false;
  bool operator==(const SamplingConfig&) const = default;
};

struct KvConfig {
  std::int64_t block_tokens = 64;
  std::int64_t memory_bytes = 512LL << 20;                   ///< Of each rank.
  sched::Reservation reserve = sched::Reservation::expected; ///< `worst` or `expected`.
  double reserve_quantile = 0.9; ///< With `expected`: of the lengths of finished answers.
  bool operator==(const KvConfig&) const = default;
};

/// What time budgets mean on this hardware.
struct CostModelConfig {
  sched::CostModel model;
  double null_speed = 0.0; ///< device "null": 0 = at once, 1 = as modelled.

  bool operator==(const CostModelConfig& other) const noexcept;
};

/// A group of equal ranks; they are called NAME-0, NAME-1, ...
struct RankGroupConfig {
  std::string name;
  sched::Role role = sched::Role::both;
  std::int64_t count = 1;
  std::string device = "cpu"; ///< "cpu" or "null".
  std::int64_t threads = 1;
  CostModelConfig cost_model; ///< [cost_model] with the group's own keys on top.
  bool operator==(const RankGroupConfig&) const = default;
};

/// Every queue and wait has a bound.
struct LimitsConfig {
  std::int64_t requests_max = 1024;   ///< In the system at once.
  std::int64_t sequences_max = 64;    ///< Per rank: state slots.
  std::int64_t step_tokens_max = 512; ///< Per engine step.
  std::int64_t request_timeout_s = 0; ///< From arrival to end; 0 = none.
  std::int64_t no_progress_s = 600;
  std::int64_t stuck_after_s = 30;
  std::int64_t stop_grace_s = 30;
  std::int64_t choices_max = 128;   ///< Prompts in one line.
  std::int64_t preemptions_max = 8; ///< Of one request.
  std::int64_t inflight_max = 256;  ///< Batch lines in work at once.
  std::int64_t line_bytes_max = 16LL << 20;
  std::int64_t attempts_max = 3;            ///< Of one request, after losses.
  std::int64_t lease_ms = 10000;            ///< Of handed-over KV.
  std::int64_t rank_restarts_max = 3;       ///< Of each rank in a run.
  std::int64_t heartbeat_ms = 1000;         ///< How often ranks are looked at.
  std::int64_t invalid_decisions_max = 100; ///< In 60 s; then the policy set is rolled back.
  bool operator==(const LimitsConfig&) const = default;
};

/// The manager of experts: how often it plans, and for which shape.
struct ExpertsConfig {
  std::int64_t interval_ms = 60'000; ///< From plan to plan; 0 = experts are not counted.
  std::int64_t gpus = 0;             ///< 0 = one for each rank.
  std::int64_t slots = 0;            ///< Homes for copies on all of them; 0 = one an expert.
  bool operator==(const ExpertsConfig&) const = default;
};

struct LedgerConfig {
  std::string level = "decisions"; ///< "off", "decisions" or "events".
  std::string directory;           ///< Resolved; "" = OUTPUT.ledger/.
  std::int64_t size_max_bytes = 256LL << 20;
  bool operator==(const LedgerConfig&) const = default;
};

enum class JournalSync : std::uint8_t { batch, line };

struct JournalConfig {
  JournalSync sync = JournalSync::batch;
  std::int64_t flush_ms = 200;
  bool operator==(const JournalConfig&) const = default;
};

struct MetricsConfig {
  std::string file; ///< Resolved; "" = none.
  std::int64_t interval_s = 10;
  bool operator==(const MetricsConfig&) const = default;
};

/// The resolved system file. Equal files give equal structs.
struct SystemConfig {
  SystemConfig(); ///< The compiled-in defaults: one prefill and one decode rank.

  ClusterConfig cluster;
  ModelConfig model;
  SamplingConfig sampling;
  KvConfig kv;
  std::vector<RankGroupConfig> ranks; ///< Never empty, names distinct, file order.
  CostModelConfig cost_model;
  ExpertsConfig experts;
  LimitsConfig limits;
  std::string policies_file;           ///< Resolved; "" = the compiled-in set.
  std::int64_t swap_timeout_ms = 5000; ///< Of [policies].
  std::string control_socket;          ///< Resolved; "" = OUTPUT.sock.
  LedgerConfig ledger;
  JournalConfig journal;
  MetricsConfig metrics;
  std::string log_level = "info"; ///< trace, debug, info, warn, error.

  bool operator==(const SystemConfig&) const = default;
};

} // namespace troupe::app
