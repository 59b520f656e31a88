// `troupe sim run FILE`: a scenario over its seeds, a report each, a command that repeats a
// failure.

#include "actors/app/commands.hpp"
#include "actors/app/config_sim.hpp"
#include "actors/app/response_body.hpp"
#include "actors/plugin_loader.hpp"
#include "schedulers/core/printable.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <optional>

namespace troupe::app {

namespace {

struct Seeds {
  std::uint64_t first = 1;
  std::uint64_t last = 1;
};

/// "A..B" or "A".
std::optional<Seeds> parse_seeds(const std::string& text) {
  Seeds seeds;
  const char* end = text.data() + text.size();
  auto [rest, failed] = std::from_chars(text.data(), end, seeds.first);
  if (failed != std::errc{}) return std::nullopt;
  seeds.last = seeds.first;
  if (rest == end) return seeds;
  if (end - rest < 3 || rest[0] != '.' || rest[1] != '.') return std::nullopt;
  const auto second = std::from_chars(rest + 2, end, seeds.last);
  if (second.ec != std::errc{} || second.ptr != end || seeds.last < seeds.first) {
    return std::nullopt;
  }
  return seeds;
}

void print(const sim::SeedResult& result, bool alone, bool is_json) {
  if (is_json) {
    fmt::print("{{\"ok\":{},\"problem\":{},\"report\":{}}}\n", result.ok(),
               json_string(result.problem), sim::report_json(result.report));
  } else if (alone) {
    fmt::print("{}", sim::report_text(result.report));
  } else {
    const sim::Report& report = result.report;
    fmt::print("seed {}  {}  requests {}  ok {}  retried {}  faults {}  events {}  trace {:016x}\n",
               report.seed, result.ok() ? "good" : "BAD", report.requests,
               report.ended(ErrorCode::ok), report.retried, report.faults, report.events,
               report.trace_hash);
  }
}

} // namespace

int command_sim(const SimArguments& arguments) {
  sched::PolicyRegistry registry;
  sched::register_builtin_policies(registry);
  registry.set_library_source(std::make_shared<actors::PluginLoader>());
  const SimOutcome loaded = load_sim_file(arguments.file, registry);
  if (!loaded.ok()) return fail(kExitRefused, error_lines(loaded.errors));
  Seeds seeds{loaded.scenario.seed_first, loaded.scenario.seed_last};
  if (!arguments.seeds.empty()) {
    const auto given = parse_seeds(arguments.seeds);
    if (!given) {
      return fail(kExitRefused, fmt::format("--seeds: found {}, expected FIRST..LAST, as in "
                                            "1..300, or one number",
                                            quote(arguments.seeds)));
    }
    seeds = *given;
  }
  std::uint64_t bad = 0;
  for (std::uint64_t seed = seeds.first;; ++seed) {
    const sim::SeedResult result = sim::run_seed(loaded.scenario, seed);
    print(result, seeds.first == seeds.last, arguments.common.json);
    if (!result.ok()) {
      ++bad;
      fail(kExitPartial,
           fmt::format("{}: seed {}: {}; to repeat it: troupe sim run {} --seeds "
                       "{}..{}",
                       arguments.file, seed, result.problem, arguments.file, seed, seed));
    }
    if (seed == seeds.last) break;
  }
  if (!arguments.common.json && seeds.first != seeds.last) {
    fmt::print("seeds {}..{}  {} of {} bad\n", seeds.first, seeds.last, bad,
               seeds.last - seeds.first + 1);
  }
  return bad == 0 ? kExitDone : kExitPartial;
}

} // namespace troupe::app
