// `troupe bench engine|messages|scheduler|overlap`: speed as ratios against a floor of the same
// run.

#include "actors/app/bench_engine.hpp"
#include "actors/app/bench_messages.hpp"
#include "actors/app/bench_overlap.hpp"
#include "actors/app/bench_scheduler.hpp"
#include "actors/app/commands.hpp"
#include "actors/app/config_loader.hpp"
#include "actors/app/system_actors.hpp"

#include <cstdio>

namespace troupe::app {

namespace {

constexpr std::int64_t kRounds = 5;
constexpr std::int64_t kHops = 100'000;

int print(const CommonArguments& common, const std::string& text, const std::string& json) {
  std::fputs(common.json ? (json + "\n").c_str() : text.c_str(), stdout);
  return kExitDone;
}

int run_overlap(const BenchArguments& arguments) {
  auto setup = set_up(arguments.common, arguments.model, "");
  if (!setup.ok()) return fail(exit_code_of(setup.error()), setup.error().message);
  const auto bench = bench_overlap(*setup, kRounds);
  if (!bench.ok()) return fail(exit_code_of(bench.error()), bench.error().message);
  return print(arguments.common, bench_text(*bench), bench_json(*bench));
}

} // namespace

int command_bench(const BenchArguments& arguments) {
  if (arguments.what == "messages") {
    const MessageBench bench = bench_messages(kRounds, kHops);
    return print(arguments.common, bench_text(bench), bench_json(bench));
  }
  if (arguments.what == "scheduler") {
    const SchedulerBench bench = bench_scheduler(kRounds);
    return print(arguments.common, bench_text(bench), bench_json(bench));
  }
  if (arguments.what == "overlap") return run_overlap(arguments);
  ConfigOutcome loaded = load_system_config(arguments.common.config, arguments.common.sets);
  if (!loaded.ok()) return fail(kExitRefused, error_lines(loaded.errors));
  if (!arguments.model.empty()) loaded.config.model.path = arguments.model;
  if (loaded.config.model.path.empty()) {
    return fail(kExitRefused, "bench engine: no model: pass --model DIR, or set model.path");
  }
  if (!arguments.common.quiet) {
    std::fputs("troupe: measuring, about a minute on the bundled model\n", stderr);
  }
  const auto bench =
      bench_engine_shapes(engine_options(loaded.config, loaded.config.ranks.front()), kRounds);
  if (!bench.ok()) return fail(exit_code_of(bench.error()), bench.error().message);
  return print(arguments.common, bench_text(*bench), bench_json(*bench));
}

} // namespace troupe::app
