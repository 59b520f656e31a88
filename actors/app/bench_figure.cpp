#include "actors/app/bench_figure.hpp"

#include "schedulers/core/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>

namespace troupe::app {

namespace {

/// Where results of calls go.
std::atomic<std::int64_t> sink{0};

double mean_ns(std::int64_t calls, const BenchCall& call) {
  std::int64_t sum = 0;
  const double begin = thread_cpu_ns();
  for (std::int64_t i = 0; i < calls; ++i)
    sum += call();
  const double ns = (thread_cpu_ns() - begin) / static_cast<double>(calls);
  sink.fetch_add(sum, std::memory_order_relaxed);
  return ns;
}

void wall_ns(std::int64_t calls, const BenchCall& call, std::vector<double>& taken) {
  for (std::int64_t i = 0; i < calls; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const std::int64_t result = call();
    const auto ns = (std::chrono::steady_clock::now() - begin).count();
    sink.fetch_add(result, std::memory_order_relaxed);
    taken.push_back(static_cast<double>(ns));
  }
}

std::string goal_text(const BenchFigure& figure) {
  if (!figure.has_goal()) return {};
  const std::string goal = figure.goal_ratio > 0 ? fmt::format("{:g} x", figure.goal_ratio)
                                                 : time_text(1000 * figure.goal_us);
  return fmt::format("; goal {}: {}", goal, figure.met() ? "met" : "not met");
}

} // namespace

double thread_cpu_ns() {
  std::timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
  TROUPE_CHECK(!values.empty(), "a median of something");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void measure(BenchFigure& figure, std::int64_t rounds, std::int64_t calls, const BenchCall& call,
             std::int64_t floor_calls, const BenchCall& floor) {
  mean_ns(calls, call); // Caches and branch predictors are warm, as they are in a busy stage.
  mean_ns(floor_calls, floor);
  std::vector<double> costs, floors;
  for (std::int64_t round = 0; round < rounds; ++round) {
    costs.push_back(mean_ns(calls, call));
    floors.push_back(mean_ns(floor_calls, floor));
  }
  figure.cost_ns = median(std::move(costs));
  figure.floor_ns = median(std::move(floors));
}

void measure_wall(BenchFigure& figure, std::int64_t rounds, std::int64_t calls,
                  const BenchCall& call, const BenchCall& floor) {
  std::vector<double> costs, floors;
  for (std::int64_t round = 0; round < rounds; ++round) {
    wall_ns(calls, call, costs);
    wall_ns(calls, floor, floors);
  }
  figure.cost_ns = median(std::move(costs));
  figure.floor_ns = median(std::move(floors));
}

std::string time_text(double ns) {
  if (ns < 1000) return fmt::format("{:.0f} ns", ns);
  if (ns < 100'000) return fmt::format("{:.2f} us", ns / 1000);
  if (ns < 1'000'000) return fmt::format("{:.0f} us", ns / 1000);
  return fmt::format("{:.2f} ms", ns / 1'000'000);
}

std::string bench_text(std::span<const BenchFigure> figures) {
  std::string text;
  for (const BenchFigure& figure : figures) {
    text +=
        fmt::format("{}: {}, {} {}, ratio {:.2f}{}\n", figure.what, time_text(figure.cost_ns),
                    figure.floor, time_text(figure.floor_ns), figure.ratio(), goal_text(figure));
  }
  return text;
}

std::string bench_json(std::span<const BenchFigure> figures) {
  std::string text = "{";
  for (const BenchFigure& figure : figures) {
    text += fmt::format(R"({}"{}":{{"ns":{:.0f},"floor_ns":{:.0f},"ratio":{:.3f})",
                        text.size() > 1 ? "," : "", figure.key, figure.cost_ns, figure.floor_ns,
                        figure.ratio());
    if (figure.goal_ratio > 0)
      text += fmt::format(R"(,"goal_ratio":{:g})", figure.goal_ratio);
    else if (figure.goal_us > 0)
      text += fmt::format(R"(,"goal_us":{:g})", figure.goal_us);
    if (figure.has_goal()) text += fmt::format(R"(,"met":{})", figure.met());
    text += "}";
  }
  return text + "}";
}

} // namespace troupe::app
