#include "actors/app/job_setup.hpp"

#include "actors/app/system_actors.hpp"
#include "actors/plugin_loader.hpp"
#include "engine/inspect.hpp"
#include "engine/text/chat_renderer.hpp"
#include "schedulers/core/printable.hpp"

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>

namespace troupe::app {

namespace {

/// The text of a log line, whatever somebody's names and answers put into it.
class PrintableText : public spdlog::custom_flag_formatter {
public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& out) override {
    const std::string text = message_line({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<PrintableText>();
  }
};

bool all_null(const SystemConfig& config) {
  return std::all_of(config.ranks.begin(), config.ranks.end(),
                     [](const RankGroupConfig& group) { return group.device == "null"; });
}

/// What can be known to be wrong before weights are read: memory settings, missing tensors.
Status check_checkpoint(const engine::InspectFacts& facts, const SystemConfig& config) {
  const std::string format = config.model.activation_quant == "off" ? "f32" : "packed";
  for (const engine::KvMemory& memory : facts.memory) {
    if (memory.kv_format == format && !memory.problem.empty()) {
      return {ErrorCode::bad_argument, memory.problem};
    }
  }
  return engine::check_complete(facts);
}

/// Configuration and headers of the checkpoint, read once; the null device needs no weights.
Result<engine::ModelFacts> read_model(const SystemConfig& config) {
  const engine::EngineOptions options = engine_options(config, config.ranks.front());
  if (all_null(config)) return engine::describe_model(options, false);
  const auto facts =
      engine::inspect_checkpoint(config.model.path, {config.kv.block_tokens, config.kv.memory_bytes,
                                                     config.limits.sequences_max});
  if (!facts.ok()) return facts.error();
  auto model = engine::model_facts(*facts, options);
  if (!model.ok()) return model.error();
  if (Status good = check_checkpoint(*facts, config); !good.ok()) return good.error();
  return model;
}

Result<TextOptions> text_options(const SystemConfig& config, const engine::ModelFacts& model) {
  const std::filesystem::path folder = config.model.path;
  auto tokenizer = text::Tokenizer::load((folder / "tokenizer.json").string());
  // The folder is there, so a missing file is damage and no wrong argument.
  if (!tokenizer.ok()) return Error{ErrorCode::bad_checkpoint, tokenizer.error().message};
  if ((*tokenizer)->vocab_size() > model.vocab) {
    return Error{ErrorCode::bad_checkpoint,
                 fmt::format("{}: found ids up to {}, expected less than vocab_size = {} of "
                             "config.json; the files are of two models, fetch both again",
                             (folder / "tokenizer.json").string(), (*tokenizer)->vocab_size() - 1,
                             model.vocab)};
  }
  TextOptions out;
  out.tokenizer = std::move(*tokenizer);
  const std::string encoding = (folder / "encoding.json").string();
  auto format = text::load_chat_format(encoding);
  if (format.ok()) {
    const Status complete = text::check_markers(*out.tokenizer, *format,
                                                (folder / "tokenizer.json").string(), encoding);
    if (!complete.ok()) return complete.error();
    out.format = std::move(*format);
  } else if (format.error().code == ErrorCode::not_found) {
    spdlog::warn("{}: no encoding.json: only /v1/completions is served", config.model.path);
  } else {
    return format.error();
  }
  const SamplingConfig& sampling = config.sampling;
  out.seed = static_cast<std::uint64_t>(config.cluster.seed);
  out.vocab = model.vocab;
  out.context_max = model.context_max;
  out.eos_ids = model.eos_ids;
  out.temperature = sampling.temperature.value_or(model.temperature);
  out.top_p = sampling.top_p.value_or(model.top_p);
  out.top_k = sampling.top_k > 0 ? sampling.top_k : model.top_k;
  out.thinking = sampling.thinking;
  out.max_tokens_chat = sampling.max_tokens_chat;
  out.max_tokens_thinking = sampling.max_tokens_thinking;
  out.max_tokens_effort_max = sampling.max_tokens_effort_max;
  out.max_tokens_completion = sampling.max_tokens_completion;
  out.reject_missing_reasoning = sampling.reject_missing_reasoning;
  out.choices_max = config.limits.choices_max;
  return out;
}

} // namespace

std::shared_ptr<sched::PolicyRegistry> program_policies() {
  auto registry = std::make_shared<sched::PolicyRegistry>();
  sched::register_builtin_policies(*registry);
  registry->set_library_source(std::make_shared<actors::PluginLoader>());
  return registry;
}

void start_log(const std::string& level) {
  auto logger =
      std::make_shared<spdlog::logger>("troupe", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  auto lines = std::make_unique<spdlog::pattern_formatter>();
  lines->add_flag<PrintableText>('*').set_pattern("troupe: %l: %*");
  logger->set_formatter(std::move(lines));
  logger->set_level(spdlog::level::from_str(level == "warn" ? "warning" : level));
  spdlog::set_default_logger(std::move(logger));
}

Result<JobSetup> set_up(const CommonArguments& common, const std::string& model,
                        const std::string& policies) {
  ConfigOutcome loaded = load_system_config(common.config, common.sets);
  if (!loaded.ok()) return Error{ErrorCode::bad_argument, error_lines(loaded.errors)};
  JobSetup setup;
  setup.config = std::move(loaded.config);
  setup.places = std::move(loaded.places);
  SystemConfig& config = setup.config;
  if (!model.empty()) config.model.path = model;
  if (!policies.empty()) config.policies_file = policies;
  if (!common.log_level.empty()) config.log_level = common.log_level;
  start_log(common.quiet ? "error" : config.log_level);
  if (config.model.path.empty()) {
    return Error{ErrorCode::missing_key,
                 "no model: pass --model DIR, or set model.path in the configuration"};
  }

  const auto registry = program_policies();
  setup.registry = registry;
  if (!config.policies_file.empty()) {
    PolicyOutcome set = load_policy_file(config.policies_file, *registry);
    if (!set.ok()) return Error{ErrorCode::bad_argument, error_lines(set.errors)};
    setup.policies = std::move(set.set);
  }
  auto model_facts = read_model(config);
  if (!model_facts.ok()) return setup.places.placed(model_facts.error());
  setup.model = std::move(*model_facts);
  if (Status fits = check_experts(config, setup.model.experts); !fits.ok()) {
    return setup.places.placed(fits.error());
  }
  auto text = text_options(config, setup.model);
  if (!text.ok()) return text.error();
  setup.text = std::move(*text);
  return setup;
}

JobIdentity job_identity(const JobSetup& setup) {
  const SystemConfig& config = setup.config;
  const TextOptions& text = setup.text;
  JobIdentity identity;
  const auto add = [&](const char* name, std::string value) {
    identity.fields.emplace_back(name, std::move(value));
  };
  add("model", setup.model.identity);
  add("model.activation_quant", config.model.activation_quant);
  add("model.kv_format", config.model.activation_quant == "off" ? "f32" : "packed");
  add("model.context_max", std::to_string(setup.model.context_max));
  add("device", all_null(config) ? "null" : "weights");
  add("sampling.temperature", fmt::format("{}", text.temperature));
  add("sampling.top_p", fmt::format("{}", text.top_p));
  add("sampling.top_k", std::to_string(text.top_k));
  add("sampling.thinking", text.thinking ? "true" : "false");
  add("sampling.max_tokens_chat", std::to_string(text.max_tokens_chat));
  add("sampling.max_tokens_thinking", std::to_string(text.max_tokens_thinking));
  add("sampling.max_tokens_effort_max", std::to_string(text.max_tokens_effort_max));
  add("sampling.max_tokens_completion", std::to_string(text.max_tokens_completion));
  add("sampling.reject_missing_reasoning", text.reject_missing_reasoning ? "true" : "false");
  add("limits.choices_max", std::to_string(text.choices_max));
  add("cluster.seed", std::to_string(config.cluster.seed));
  add("limits.line_bytes_max", std::to_string(config.limits.line_bytes_max));
  return identity;
}

} // namespace troupe::app
