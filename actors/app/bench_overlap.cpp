#include "actors/app/bench_overlap.hpp"

#include "actors/app/local_system.hpp"
#include "actors/app/prompt_job.hpp"
#include "actors/app/rank_maker.hpp"
#include "actors/app/steady_clock.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>

namespace troupe::app {

namespace {

constexpr std::array<const char*, 2> kPolicies{"serial", "one_ahead"};
constexpr std::int64_t kRequests = 64;
constexpr std::int64_t kPromptTokens = 48;
constexpr std::int64_t kNewTokens = 64;

/// What one run under one policy came to.
struct OneRun {
  std::vector<OverlapBenchRank> ranks;
  double idle_share = 0;
  double tokens_per_s = 0;
  std::int64_t tokens = 0;
  std::map<std::int64_t, std::string> answers; ///< What the model decided, by request.
};

std::string body_of(std::int64_t number, std::int64_t vocab) {
  std::vector<std::int64_t> prompt;
  for (std::int64_t i = 0; i < kPromptTokens; ++i)
    prompt.push_back((7 + 31 * number + 17 * i) % vocab);
  return fmt::format(R"({{"prompt":[{}],"max_tokens":{},"ignore_eos":true,"logprobs":1,)"
                     R"("temperature":{},"seed":{}}})",
                     fmt::join(prompt, ","), kNewTokens, number % 2, number);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double share(std::int64_t part, std::int64_t whole) {
  return whole <= 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

SystemOptions system_options(const JobSetup& setup, const std::string& policy,
                             const std::shared_ptr<PromptJob>& job) {
  SystemOptions options;
  options.config = setup.config;
  options.config.ledger = {};
  options.policies = setup.policies;
  options.policies.kinds["overlap"].policy = policy;
  options.registry = setup.registry;
  options.job = job;
  options.inflight_max = kRequests;
  options.text = setup.text;
  options.text.job_id = job->facts().job_id;
  return options;
}

/// Shares of what the ranks of a stopped system did.
void add_ranks(const LocalSystem& system, OneRun& run) {
  std::int64_t idle_us = 0;
  std::int64_t busy_us = 0;
  for (std::size_t i = 0; i < system.totals().size(); ++i) {
    const actors::RankTotals& totals = *system.totals()[i];
    idle_us += totals.idle_us;
    busy_us += totals.busy_us;
    run.ranks.push_back(
        {system.rank_names()[i], share(totals.idle_us, totals.idle_us + totals.busy_us),
         share(totals.steps_ahead, totals.steps), share(totals.busy_us, totals.steps)});
  }
  run.idle_share = share(idle_us, idle_us + busy_us);
}

Result<OneRun> run_once(const JobSetup& setup, const std::string& policy) {
  const auto job = std::make_shared<PromptJob>();
  for (std::int64_t i = 0; i < kRequests; ++i)
    job->push(text::Endpoint::completions, body_of(i, setup.model.vocab));
  job->close();
  auto ranks = open_ranks(setup.config);
  if (!ranks.ok()) return ranks.error();
  OneRun run;
  actors::JobState last;
  const std::int64_t begin_us = steady_us();
  {
    LocalSystem system(system_options(setup, policy, job), std::move(*ranks));
    while (system.receive([&](const actors::JobState& state) { last = state; },
                          [](const actors::Piece&) {})) {
    }
    run.tokens = last.output_tokens;
    run.tokens_per_s = 1e6 * share(run.tokens, steady_us() - begin_us);
    system.stop();
    add_ranks(system, run);
  }
  if (last.code != ErrorCode::ok) return Error{last.code, last.message};
  LineResult line;
  while (job->take(line)) {
    if (!line.is_success) {
      return Error{ErrorCode::mismatch, "bench overlap: a request failed: " + line.text};
    }
    const auto parsed = nlohmann::json::parse(line.text);
    run.answers[line.index] = parsed["response"]["body"]["choices"].dump();
  }
  return run;
}

Status check_equal(const OneRun& first, const OneRun& other, const char* policy) {
  for (const auto& [number, answer] : first.answers) {
    const auto found = other.answers.find(number);
    if (found != other.answers.end() && found->second == answer) continue;
    return {ErrorCode::mismatch,
            fmt::format("bench overlap: request {} has another answer under {}: expected {}, found "
                        "{}; report this as a bug",
                        number, policy, answer,
                        found == other.answers.end() ? "none" : found->second)};
  }
  return {};
}

OverlapBenchRow row_of(const std::string& policy, const std::vector<OneRun>& runs) {
  const auto middle = [&](const auto& value) {
    std::vector<double> values;
    for (const OneRun& run : runs)
      values.push_back(value(run));
    return median(std::move(values));
  };
  OverlapBenchRow row;
  row.policy = policy;
  row.idle_share = middle([](const OneRun& run) { return run.idle_share; });
  row.tokens_per_s = middle([](const OneRun& run) { return run.tokens_per_s; });
  for (std::size_t i = 0; i < runs.front().ranks.size(); ++i) {
    row.ranks.push_back({runs.front().ranks[i].name,
                         middle([i](const OneRun& run) { return run.ranks[i].idle_share; }),
                         middle([i](const OneRun& run) { return run.ranks[i].ahead_share; }),
                         middle([i](const OneRun& run) { return run.ranks[i].step_us; })});
  }
  return row;
}

} // namespace

Result<OverlapBench> bench_overlap(const JobSetup& setup, std::int64_t rounds) {
  std::array<std::vector<OneRun>, kPolicies.size()> runs;
  std::vector<double> ratios;
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < kPolicies.size(); ++i) {
      auto run = run_once(setup, kPolicies[i]);
      if (!run.ok()) return run.error();
      runs[i].push_back(std::move(*run));
      const Status equal = check_equal(runs[0].front(), runs[i].back(), kPolicies[i]);
      if (!equal.ok()) return equal.error();
    }
    ratios.push_back(runs[1].back().tokens_per_s / runs[0].back().tokens_per_s);
  }
  OverlapBench bench;
  bench.rounds = rounds;
  bench.requests = kRequests;
  bench.tokens = runs[0].front().tokens;
  for (std::size_t i = 0; i < kPolicies.size(); ++i)
    bench.rows.push_back(row_of(kPolicies[i], runs[i]));
  bench.tokens_ratio = median(std::move(ratios));
  return bench;
}

std::string bench_text(const OverlapBench& bench) {
  std::string out =
      fmt::format("{} requests, {} tokens, medians of {} rounds in turns; all answers "
                  "equal\npolicy     rank         idle share  planned ahead   us a "
                  "step  tokens/s\n",
                  bench.requests, bench.tokens, bench.rounds);
  for (const OverlapBenchRow& row : bench.rows) {
    for (const OverlapBenchRank& rank : row.ranks) {
      out += fmt::format("{:9}  {:11}  {:10.4f}  {:13.2f}  {:10.0f}\n", row.policy, rank.name,
                         rank.idle_share, rank.ahead_share, rank.step_us);
    }
    out += fmt::format("{:9}  {:11}  {:10.4f}  {:13}  {:10}  {:8.0f}\n", row.policy, "all",
                       row.idle_share, "", "", row.tokens_per_s);
  }
  return out + fmt::format("tokens/s of one_ahead to serial, median of pairs of runs: {:.3f}\n",
                           bench.tokens_ratio);
}

std::string bench_json(const OverlapBench& bench) {
  nlohmann::ordered_json out{{"rounds", bench.rounds},
                             {"requests", bench.requests},
                             {"tokens", bench.tokens},
                             {"equal", true},
                             {"tokens_ratio", bench.tokens_ratio},
                             {"rows", nlohmann::ordered_json::array()}};
  for (const OverlapBenchRow& row : bench.rows) {
    nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
    for (const OverlapBenchRank& rank : row.ranks) {
      ranks.push_back({{"rank", rank.name},
                       {"idle_share", rank.idle_share},
                       {"ahead_share", rank.ahead_share},
                       {"step_us", rank.step_us}});
    }
    out["rows"].push_back({{"policy", row.policy},
                           {"idle_share", row.idle_share},
                           {"tokens_per_s", row.tokens_per_s},
                           {"ranks", std::move(ranks)}});
  }
  return out.dump();
}

} // namespace troupe::app
