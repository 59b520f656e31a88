#include "tests/support/live_system.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

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
  auto builtins = std::make_shared<sched::PolicyRegistry>();
  sched::register_builtin_policies(*builtins);
  const auto job = std::make_shared<app::PromptJob>();
  for (const auto& [endpoint, body] : requests)
    job->push(endpoint, body);
  job->close();

  app::SystemOptions options;
  options.config = config;
  options.policies = extra.policies;
  options.registry = extra.registry ? extra.registry : builtins;
  options.job = extra.job ? extra.job : job;
  options.tap = extra.tap;
  options.watch = extra.watch;
  options.on_live = extra.on_live;
  options.first_epoch = extra.first_epoch;
  options.wrap = extra.wrap;
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
  std::vector<app::OpenedRank> ranks = must(app::open_ranks(config));
  std::vector<engine::KvFacts> kv;
  for (const app::OpenedRank& rank : ranks)
    kv.push_back(rank.kv);
  app::LocalSystem system(std::move(options), std::move(ranks));
  if (extra.on_system) extra.on_system(system);
  while (system.receive([&](const actors::JobState& state) { run.state = state; },
                        [](const actors::Piece&) {})) {
  }
  const auto held = [&] {
    return std::any_of(system.totals().begin(), system.totals().end(),
                       [](const auto& totals) { return totals->slots_held > 0; });
  };
  for (std::int64_t ms = 0; ms < extra.settle_ms && held(); ++ms)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  system.stop();
  for (std::size_t i = 0; i < kv.size(); ++i) {
    const actors::RankTotals& totals = *system.totals()[i];
    run.kv_blocks_held += totals.kv_blocks_held;
    run.slots_held += totals.slots_held;
    run.conserved = run.conserved &&
                    totals.kv_blocks_held + totals.kv_blocks_free == kv[i].blocks &&
                    totals.slots_held + totals.slots_free == kv[i].slots;
  }
  run.restarts = system.actors().supervised->restarts;
  run.policies = system.actors().policies->view();
  app::LineResult result;
  while (job->take(result)) {
    if (!result.is_success) ++run.failed;
    run.answers[result.index] = result.text;
  }
  return run;
}

} // namespace troupe::test
