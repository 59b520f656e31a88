#include "actors/app/summary.hpp"

#include "actors/app/replace_file.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace troupe::app {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kBusyHintPermille = 300;
constexpr std::int64_t kHintWallUs = 1'000'000; ///< A shorter run is mostly beginning and end.

std::string_view end_name(RunEnd end) {
  switch (end) {
  case RunEnd::finished:
    return "finished";
  case RunEnd::stopped:
    return "stopped";
  case RunEnd::failed:
    return "failed";
  case RunEnd::already_complete:
    return "already_complete";
  }
  return "unknown";
}

std::int64_t busy_permille(const RankSummary& rank, std::int64_t wall_us) {
  return wall_us <= 0 ? 0 : std::min<std::int64_t>(rank.busy_us * 1000 / wall_us, 1000);
}

double per_second(std::int64_t count, std::int64_t wall_us) {
  return wall_us <= 0 ? 0.0 : static_cast<double>(count) * 1e6 / static_cast<double>(wall_us);
}

std::string duration(std::int64_t us) {
  if (us < 1000) {
    return fmt::format("{} us", us);
  }
  if (us < 1'000'000) {
    return fmt::format("{:.1f} ms", static_cast<double>(us) / 1e3);
  }
  if (us < 600'000'000) {
    return fmt::format("{:.2f} s", static_cast<double>(us) / 1e6);
  }
  const std::int64_t seconds = us / 1'000'000;
  return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

std::string latency_line(const char* name, const Histogram& histogram) {
  if (histogram.count() == 0) {
    return fmt::format("  {:<11}no value\n", name);
  }
  return fmt::format("  {:<11}p50 {}, p95 {}, p99 {}, max {}\n", name,
                     duration(histogram.quantile_us(500)), duration(histogram.quantile_us(950)),
                     duration(histogram.quantile_us(990)), duration(histogram.max_us()));
}

Json latency_json(const Histogram& histogram) {
  return {{"count", histogram.count()},           {"mean_us", histogram.mean_us()},
          {"p50_us", histogram.quantile_us(500)}, {"p95_us", histogram.quantile_us(950)},
          {"p99_us", histogram.quantile_us(990)}, {"max_us", histogram.max_us()}};
}

/// Ranks of separate roles that waited most of the time, in a whole run that was long enough to
/// tell.
bool has_idle_rank(const RunSummary& summary) {
  return summary.end == RunEnd::finished && summary.wall_us >= kHintWallUs &&
         summary.ranks.size() > 1 &&
         std::any_of(summary.ranks.begin(), summary.ranks.end(),
                     [](const RankSummary& rank) { return rank.role != sched::Role::both; }) &&
         std::any_of(summary.ranks.begin(), summary.ranks.end(), [&](const RankSummary& rank) {
           return busy_permille(rank, summary.wall_us) < kBusyHintPermille;
         });
}

} // namespace

std::string summary_text(const RunSummary& summary) {
  const std::int64_t done = summary.requests_succeeded + summary.requests_failed;
  std::string out =
      fmt::format("{}{}: {} of {} requests done, {} succeeded, {} failed\n",
                  summary.job_id.empty() ? "run" : "job ", summary.job_id, done,
                  summary.requests_total < 0 ? "?" : fmt::format("{}", summary.requests_total),
                  summary.requests_succeeded, summary.requests_failed);
  if (summary.requests_failed > 0 && !summary.errors_file.empty()) {
    out += fmt::format("  {:<11}{}\n", "errors in", summary.errors_file);
  }
  out += fmt::format("  {:<11}{} in, {} out", "tokens", summary.prompt_tokens,
                     summary.completion_tokens);
  out += fmt::format(" ({:.0f} in/s, {:.0f} out/s in this run)\n",
                     per_second(summary.run_prompt_tokens, summary.wall_us),
                     per_second(summary.run_completion_tokens, summary.wall_us));
  out += latency_line("TTFT", summary.ttft);
  out += latency_line("TPOT", summary.tpot);
  for (const RankSummary& rank : summary.ranks) {
    out +=
        fmt::format("  {:<11}busy {:.1f} % in {} steps\n", rank.name,
                    static_cast<double>(busy_permille(rank, summary.wall_us)) / 10.0, rank.steps);
  }
  out += fmt::format("  {:<11}{} for {} steps", "scheduling", duration(summary.scheduling_us),
                     summary.steps);
  if (summary.steps > 0) {
    out += fmt::format(", {} a step", duration(summary.scheduling_us / summary.steps));
  }
  if (summary.run_requests > 0) {
    out +=
        fmt::format("; {:.1f} messages a request", static_cast<double>(summary.messages) /
                                                       static_cast<double>(summary.run_requests));
  }
  if (summary.ledger_us > 0) {
    out += fmt::format("\n  {:<11}{}", "ledger", duration(summary.ledger_us));
    if (summary.wall_us > 0) {
      out += fmt::format(", {:.2f} % of the wall time", 100.0 *
                                                            static_cast<double>(summary.ledger_us) /
                                                            static_cast<double>(summary.wall_us));
    }
  }
  if (summary.preemptions > 0) {
    out += fmt::format("\n  {:<11}{} preemptions; kv.memory is tight", "kv", summary.preemptions);
  }
  out += fmt::format("\n  {:<11}{}\n", "wall time", duration(summary.wall_us));
  if (summary.rank_restarts > 0) {
    out += fmt::format("  {:<11}{} times a lost rank was started again; the log says why\n",
                       "restarts", summary.rank_restarts);
  }
  if (has_idle_rank(summary)) {
    out += "  hint: a rank was busy less than 30 % of the time; for files like this one "
           "--config configs/throughput.toml (ranks with role \"both\") uses the machine better\n";
  }
  return out;
}

std::string summary_json(const RunSummary& summary) {
  Json ranks = Json::array();
  for (const RankSummary& rank : summary.ranks) {
    ranks.push_back({{"name", rank.name},
                     {"role", sched::role_name(rank.role)},
                     {"busy_us", rank.busy_us},
                     {"busy_permille", busy_permille(rank, summary.wall_us)},
                     {"steps", rank.steps}});
  }
  const Json total = summary.requests_total < 0 ? Json(nullptr) : Json(summary.requests_total);
  const Json document = {
      {"job_id", summary.job_id.empty() ? Json(nullptr) : Json(summary.job_id)},
      {"end", end_name(summary.end)},
      {"requests",
       {{"total", total},
        {"succeeded", summary.requests_succeeded},
        {"failed", summary.requests_failed}}},
      {"tokens", {{"prompt", summary.prompt_tokens}, {"completion", summary.completion_tokens}}},
      {"run",
       {{"requests", summary.run_requests},
        {"prompt_tokens", summary.run_prompt_tokens},
        {"completion_tokens", summary.run_completion_tokens},
        {"wall_us", summary.wall_us},
        {"scheduling_us", summary.scheduling_us},
        {"ledger_us", summary.ledger_us},
        {"steps", summary.steps},
        {"messages", summary.messages},
        {"preemptions", summary.preemptions},
        {"ttft", latency_json(summary.ttft)},
        {"tpot", latency_json(summary.tpot)},
        {"rank_restarts", summary.rank_restarts},
        {"ranks", std::move(ranks)}}}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace);
}

Status write_summary(const RunSummary& summary, const std::string& path) {
  return replace_file(path, summary_json(summary) + "\n", "summary");
}

} // namespace troupe::app
