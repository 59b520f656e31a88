#include "actors/app/bench_scheduler.hpp"

#include "actors/app/bench_plans.hpp"
#include "actors/app/bench_routes.hpp"
#include "actors/app/bench_step.hpp"
#include "actors/ledger_writer.hpp"
#include "schedulers/core/rng.hpp"
#include "schedulers/sim/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <utility>
#include <vector>

namespace troupe::app {

namespace {

constexpr std::int64_t kWalkEvery = 1000;

sim::Plan bench_plan() {
  sim::Scenario scenario;
  scenario.name = "bench";
  scenario.block_tokens = 64;
  scenario.walk_every = kWalkEvery;
  scenario.ranks = {{"", sched::Role::prefill, 4, 512, 32, 512, 0},
                    {"", sched::Role::decode, 4, 512, 32, 512, 0}};
  scenario.workload.requests = 2'000;
  scenario.workload.arrivals = sim::Arrivals::poisson;
  scenario.workload.gap_us = 25'000;
  scenario.workload.prompt = {16, 400};
  scenario.workload.new_tokens = {8, 64};
  scenario.network.delay_us_min = 5;
  scenario.network.delay_us_max = 200;
  return sim::plan_of(scenario, 1);
}

/// CPU time of this process: other processes of a busy machine do not count.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// A heap of (time, order) that holds `pending` events: pop the earliest, push one some time later.
double heap_events_per_s(std::int64_t pending, std::int64_t events) {
  using Key = std::pair<std::int64_t, std::uint64_t>;
  std::vector<Key> heap;
  std::uint64_t order = 0;
  const auto later = [&](std::int64_t now_us) {
    return Key{now_us + static_cast<std::int64_t>(mix64(order) % 10'000), order};
  };
  for (; order < static_cast<std::uint64_t>(pending); ++order) {
    heap.push_back(later(0));
    std::push_heap(heap.begin(), heap.end(), std::greater<>{});
  }
  const double begin = cpu_seconds();
  for (std::int64_t i = 0; i < events; ++i, ++order) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>{});
    heap.back() = later(heap.back().first);
    std::push_heap(heap.begin(), heap.end(), std::greater<>{});
  }
  return static_cast<double>(events) / (cpu_seconds() - begin);
}

/// Writes decisions as the thread of the ledger does; returns the CPU time it took, and their
/// bytes.
std::pair<double, std::int64_t> write_ledger(const std::vector<sim::TimedRecord>& records) {
  namespace fs = std::filesystem;
  std::string folder = (fs::temp_directory_path() / "troupe-bench-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return {0, 0};
  double seconds = 0;
  std::int64_t bytes = 0;
  if (auto writer = actors::LedgerWriter::open(folder, 1LL << 32); writer.ok()) {
    sched::LedgerEntry entry;
    const double begin = cpu_seconds();
    for (const sim::TimedRecord& one : records) {
      entry.at_us = one.now_us;
      entry.what = one.record;
      writer->add(entry);
      ++entry.number;
    }
    writer->write_out();
    seconds = cpu_seconds() - begin;
  }
  std::error_code code;
  for (const auto& file : fs::directory_iterator(folder, code))
    bytes += static_cast<std::int64_t>(file.file_size());
  fs::remove_all(folder, code);
  return {seconds, bytes};
}

} // namespace

SchedulerBench bench_scheduler(std::int64_t rounds) {
  const sim::Plan plan = bench_plan();
  SchedulerBench bench;
  bench.rounds = rounds;
  bench.walk_every = kWalkEvery;
  bench.requests = static_cast<std::int64_t>(plan.requests.size());
  std::vector<double> ours;
  std::vector<double> bare;
  std::vector<double> run;
  std::vector<double> ledger;
  sim::SimOptions keeping = plan.options;
  keeping.keep_records = true;
  sim::Simulator recorded(keeping, plan.requests);
  recorded.run(plan.limit_us, plan.settle_us);
  bench.decisions = static_cast<std::int64_t>(recorded.records().size());
  for (std::int64_t round = 0; round < rounds; ++round) {
    sim::Simulator simulator(plan.options, plan.requests);
    const double begin = cpu_seconds();
    simulator.run(plan.limit_us, plan.settle_us);
    const double seconds = cpu_seconds() - begin;
    bench.events = simulator.events();
    bench.pending = std::max<std::int64_t>(1, simulator.pending_mean());
    ours.push_back(static_cast<double>(bench.events) / seconds);
    run.push_back(seconds);
    const auto [written_s, bytes] = write_ledger(recorded.records());
    ledger.push_back(written_s);
    bench.decision_bytes = static_cast<double>(bytes) /
                           static_cast<double>(std::max<std::int64_t>(1, bench.decisions));
    bare.push_back(heap_events_per_s(bench.pending, 4 * bench.events));
  }
  bench.events_per_s = median(ours);
  bench.heap_per_s = median(bare);
  bench.lane = bench_lane();
  for (const auto& figures : {bench_routes(rounds), bench_plans(rounds), bench_step(rounds)})
    bench.figures.insert(bench.figures.end(), figures.begin(), figures.end());
  bench.run_s = median(run);
  bench.ledger_s = median(ledger);
  return bench;
}

std::string bench_text(const SchedulerBench& bench) {
  return fmt::format(
      "simulated events/s with the real stages: {:.0f}, bare heap at {} pending {:.0f}, ratio "
      "{:.3f}\n(medians of {} rounds; {} events, {} requests on 4 + 4 ranks; invariants after "
      "every event, all accounts of a rank every {} events)\n"
      "ledger of its {} decisions: {:.0f} bytes and {:.2f} us of CPU each, ratio to the run "
      "{:.3f}\n{}{}",
      bench.events_per_s, bench.pending, bench.heap_per_s, bench.ratio(), bench.rounds,
      bench.events, bench.requests, bench.walk_every, bench.decisions, bench.decision_bytes,
      1e6 * bench.ledger_s / static_cast<double>(std::max<std::int64_t>(1, bench.decisions)),
      bench.ledger_ratio(), bench_text(bench.lane), bench_text(bench.figures));
}

std::string bench_json(const SchedulerBench& bench) {
  return fmt::format(R"({{"rounds":{},"events":{},"requests":{},"pending":{},"walk_every":{},)"
                     R"("events_per_s":{:.0f},"heap_events_per_s":{:.0f},"ratio":{:.4f},)"
                     R"("decisions":{},"decision_bytes":{:.1f},"ledger_s":{:.4f},)"
                     R"("ledger_ratio":{:.4f},"lane":{},"decisions_cost":{}}})",
                     bench.rounds, bench.events, bench.requests, bench.pending, bench.walk_every,
                     bench.events_per_s, bench.heap_per_s, bench.ratio(), bench.decisions,
                     bench.decision_bytes, bench.ledger_s, bench.ledger_ratio(),
                     bench_json(bench.lane), bench_json(bench.figures));
}

} // namespace troupe::app
