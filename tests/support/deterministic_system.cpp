#include "tests/support/deterministic_system.hpp"

#include <stdexcept>

namespace troupe::test {

namespace {

template <class T>
T must(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

app::SystemOptions system_options(DeterministicSystem::Options& options, const std::string& model,
                                  const std::shared_ptr<app::PromptJob>& job) {
  auto builtins = std::make_shared<sched::PolicyRegistry>();
  sched::register_builtin_policies(*builtins);
  options.config.model.path = model;
  app::SystemOptions out;
  out.config = options.config;
  out.policies = options.policies;
  out.registry = options.registry ? options.registry : builtins;
  out.job = job;
  out.inflight_max = options.inflight_max;
  out.tap = options.tap;
  out.ledger_directory = options.ledger_directory;
  out.wrap = options.wrap;
  out.watch = options.watch;
  out.on_live = options.on_live;
  const auto facts = must(
      engine::describe_model(app::engine_options(options.config, options.config.ranks[0]), false));
  out.text.tokenizer = must(text::Tokenizer::load(model + "/tokenizer.json"));
  out.text.format = must(text::load_chat_format(model + "/encoding.json"));
  out.text.job_id = job->facts().job_id;
  out.text.vocab = facts.vocab;
  out.text.context_max = facts.context_max;
  return out;
}

} // namespace

DeterministicSystem::DeterministicSystem(Options options, const std::string& model)
    : system_(settings_),
      scheduler_(dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler())),
      self_(system_, true) {
  scheduler_.clock().current_time += std::chrono::seconds{1};
  const app::SystemOptions built = system_options(options, model, job_);
  all_ = app::spawn_system(system_, actors::Threads::shared, built,
                           must(app::open_ranks(built.config)),
                           caf::actor_cast<caf::actor>(self_.ptr()));
  app::start(all_);
}

DeterministicSystem::~DeterministicSystem() {
  actors::Peers& peers = *all_.peers;
  // The supervisor first: it must not replace the ranks.
  std::vector<caf::actor> all{all_.supervisor, peers.driver, peers.chunker, peers.balancer,
                              peers.text,      peers.store,  peers.manager, peers.experts};
  for (const caf::actor& rank : peers.ranks.all())
    all.push_back(rank);
  for (const caf::actor& actor : all)
    caf::anon_send_exit(actor, caf::exit_reason::kill);
  drain();
  peers.clear();
}

void DeterministicSystem::drain() {
  while (scheduler_.try_run_once()) {
  }
  bool more = true;
  while (more) {
    self_->receive([&](const actors::JobState& state) { last_ = state; },
                   [](const actors::Piece&) {},
                   caf::after(std::chrono::seconds{0}) >> [&] { more = false; });
  }
}

actors::JobState DeterministicSystem::run(std::int64_t virtual_s) {
  const auto end = scheduler_.clock().current_time + std::chrono::seconds{virtual_s};
  drain();
  while (!last_.ended && scheduler_.clock().current_time < end && scheduler_.trigger_timeout()) {
    drain();
  }
  return last_;
}

void DeterministicSystem::pass(std::int64_t virtual_us) {
  const auto end = scheduler_.clock().current_time + std::chrono::microseconds{virtual_us};
  drain();
  while (scheduler_.clock().current_time < end && scheduler_.trigger_timeout())
    drain();
}

} // namespace troupe::test
