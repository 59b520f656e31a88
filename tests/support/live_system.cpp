#include "tests/support/live_system.hpp"

#include <stdexcept>

namespace troupe::test {

namespace {

template <class T>
T must(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

} // namespace

LiveRun run_live(const app::SystemConfig& config, const std::vector<Request>& requests,
                 const LiveOptions& extra) {
  auto registry = std::make_shared<sched::PolicyRegistry>();
  sched::register_builtin_policies(*registry);
  const auto job = std::make_shared<app::PromptJob>();
  for (const auto& [endpoint, body] : requests)
    job->push(endpoint, body);
  job->close();

  app::SystemOptions options;
  options.config = config;
  options.policies = extra.policies;
  options.registry = registry;
  options.job = job;
  options.tap = extra.tap;
  options.ledger_directory = extra.ledger_directory;
  options.inflight_max = config.limits.inflight_max;
  const auto facts =
      must(engine::describe_model(app::engine_options(config, config.ranks[0]), true));
  options.text.tokenizer = must(text::Tokenizer::load(config.model.path + "/tokenizer.json"));
  options.text.format = must(text::load_chat_format(config.model.path + "/encoding.json"));
  options.text.job_id = job->facts().job_id;
  options.text.vocab = facts.vocab;
  options.text.context_max = facts.context_max;

  LiveRun run;
  app::LocalSystem system(std::move(options), must(app::open_ranks(config)));
  while (system.receive([&](const actors::JobState& state) { run.state = state; },
                        [](const actors::Piece&) {})) {
  }
  system.stop();
  for (const auto& totals : system.totals()) {
    run.kv_blocks_held += totals->kv_blocks_held;
    run.slots_held += totals->slots_held;
  }
  app::LineResult result;
  while (job->take(result)) {
    if (!result.is_success) ++run.failed;
    run.answers[result.index] = result.text;
  }
  return run;
}

} // namespace troupe::test
