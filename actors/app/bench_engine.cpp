#include "actors/app/bench_engine.hpp"

#include "engine/bench.hpp"
#include "engine/inspect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

namespace troupe::app {

namespace {

constexpr std::array<std::int64_t, 2> kThreads{1, 2};
constexpr std::array<std::int64_t, 2> kSequences{1, 16};

/// Bytes of weights that a decode step of `sequences` tokens reads, when routing is uniform.
double step_bytes(const engine::InspectFacts& facts, std::int64_t sequences) {
  double experts = 0;
  double dense = 0;
  for (const engine::TensorGroup& kind : facts.kinds) {
    if (!kind.used || kind.name == "engram") continue; // A few rows a token.
    auto bytes = static_cast<double>(kind.bytes);
    if (kind.name == "embedding") bytes /= 2; // The head is read, of the table a few rows.
    (kind.name == "experts" ? experts : dense) += bytes;
  }
  const double missed = 1.0 - static_cast<double>(facts.config.experts_per_token) /
                                  static_cast<double>(facts.config.experts);
  return dense + experts * (1.0 - std::pow(missed, static_cast<double>(sequences)));
}

/// Bytes per second that one thread reads from a buffer of this size.
double probe_read_rate(std::int64_t bytes) {
  std::vector<std::uint64_t> buffer(static_cast<std::size_t>(bytes / 8), 1);
  const auto begin = std::chrono::steady_clock::now();
  std::array<std::uint64_t, 8> sums{};
  for (std::size_t i = 0; i + 8 <= buffer.size(); i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane)
      sums[lane] += buffer[i + lane];
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  // The sum is used, so that the loop is not optimised away.
  const auto total = std::accumulate(sums.begin(), sums.end(), std::uint64_t{0});
  return total == 0 ? 0 : static_cast<double>(bytes) / seconds;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// What the rounds measured for one shape.
struct Samples {
  std::vector<double> prefill;
  std::vector<double> decode;
};

} // namespace

Result<EngineBench> bench_engine_shapes(const engine::EngineOptions& options, std::int64_t rounds) {
  const auto facts = engine::inspect_checkpoint(options.model_path, {});
  if (!facts.ok()) return facts.error();
  auto weights = engine::load_weights(options);
  if (!weights.ok()) return weights.error();
  auto opened = engine::open_cpu_engine(*weights, options);
  if (!opened.ok()) return opened.error();
  EngineBench out;
  out.cpu_path = (*opened)->model().cpu_path;
  out.rounds = rounds;
  opened->reset();

  std::map<std::pair<std::int64_t, std::int64_t>, Samples> samples;
  std::vector<double> rates;
  for (std::int64_t round = 0; round < rounds; ++round) {
    rates.push_back(probe_read_rate(std::max<std::int64_t>(facts->used_bytes, 1 << 20)));
    for (const std::int64_t threads : kThreads) {
      for (const std::int64_t sequences : kSequences) {
        engine::BenchOptions shape;
        shape.engine = options;
        shape.engine.threads = static_cast<int>(threads);
        shape.sequences = sequences;
        auto result = engine::bench_engine(*weights, shape);
        if (!result.ok()) return result.error();
        Samples& of_shape = samples[{threads, sequences}];
        of_shape.prefill.push_back(result->prefill_tokens_per_s());
        of_shape.decode.push_back(result->decode_tokens_per_s());
      }
    }
  }
  out.read_bytes_per_s = median(rates);
  for (const auto& [shape, of_shape] : samples) {
    EngineBenchRow row{shape.first, shape.second, median(of_shape.prefill),
                       median(of_shape.decode)};
    const double steps_per_s = row.decode_tokens_per_s / static_cast<double>(shape.second);
    row.decode_read_share = step_bytes(*facts, shape.second) * steps_per_s / out.read_bytes_per_s;
    out.rows.push_back(row);
  }
  return out;
}

std::string bench_text(const EngineBench& bench) {
  std::string out =
      fmt::format("{}, medians of {} rounds; one thread reads {:.1f} GB/s\n"
                  "threads  sequences  prefill tok/s  decode tok/s  share of reading\n",
                  bench.cpu_path, bench.rounds, bench.read_bytes_per_s / 1e9);
  for (const EngineBenchRow& row : bench.rows) {
    out += fmt::format("{:7}  {:9}  {:13.0f}  {:12.0f}  {:16.2f}\n", row.threads, row.sequences,
                       row.prefill_tokens_per_s, row.decode_tokens_per_s, row.decode_read_share);
  }
  return out;
}

std::string bench_json(const EngineBench& bench) {
  std::string rows;
  for (const EngineBenchRow& row : bench.rows) {
    rows += fmt::format(R"({}{{"threads":{},"sequences":{},"prefill_tokens_per_s":{:.1f},)"
                        R"("decode_tokens_per_s":{:.1f},"decode_read_share":{:.4f}}})",
                        rows.empty() ? "" : ",", row.threads, row.sequences,
                        row.prefill_tokens_per_s, row.decode_tokens_per_s, row.decode_read_share);
  }
  return fmt::format(R"({{"cpu_path":"{}","rounds":{},"read_bytes_per_s":{:.0f},"rows":[{}]}})",
                     bench.cpu_path, bench.rounds, bench.read_bytes_per_s, rows);
}

} // namespace troupe::app
