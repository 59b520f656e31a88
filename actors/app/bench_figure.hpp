// A measured cost beside its floor and its goal, and how all benches of decisions take their time.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace troupe::app {

/// Cost of one call, and of its floor in the same rounds. Medians, in nanoseconds.
struct BenchFigure {
  std::string key;       ///< Name in JSON.
  std::string what;      ///< For a person.
  std::string floor;     ///< What the floor does, for a person.
  double goal_ratio = 0; ///< At most so many floors; 0 = the goal is a time.
  double goal_us = 0;    ///< At most, where goal_ratio is 0; 0 = no goal, for comparison only.
  double cost_ns = 0;
  double floor_ns = 0;

  double ratio() const noexcept { return floor_ns > 0 ? cost_ns / floor_ns : 0; }
  bool has_goal() const noexcept { return goal_ratio > 0 || goal_us > 0; }
  /// A ratio without a floor is not met.
  bool met() const noexcept {
    if (goal_ratio > 0) return floor_ns > 0 && ratio() <= goal_ratio;
    return cost_ns <= 1000 * goal_us;
  }
};

/// "2.1 us", "480 ns", "12.3 ms".
std::string time_text(double ns);

/// One line a figure.
std::string bench_text(std::span<const BenchFigure> figures);
/// An object with one member a figure.
std::string bench_json(std::span<const BenchFigure> figures);

/// Median; the upper one of the two in the middle. @pre not empty
double median(std::vector<double> values);

/// What one call does; its result keeps it from being optimised away.
using BenchCall = std::function<std::int64_t()>;

/// CPU time of `call` on this thread, other work of a busy machine left out: median over rounds of
/// the mean of `calls` calls. Each round does the same for `floor`.
void measure(BenchFigure& figure, std::int64_t rounds, std::int64_t calls, const BenchCall& call,
             std::int64_t floor_calls, const BenchCall& floor);

/// Wall time, for calls that wait for another thread: median of single calls over all rounds.
void measure_wall(BenchFigure& figure, std::int64_t rounds, std::int64_t calls,
                  const BenchCall& call, const BenchCall& floor);

/// CPU time of the calling thread, in nanoseconds since some moment.
double thread_cpu_ns();

} // namespace troupe::app
