// How far steps lie from the curve of recorded graphs, as the released engine learns it: a time per
// token that hardly changes, and a time for sampling and drafting that depends on the sequences.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

namespace troupe::sched {

/// Medians over windows of measured steps.
class GraphResiduals {
public:
  static constexpr std::size_t kSteps = 5000;      ///< Of the time per token.
  static constexpr std::size_t kGraphSamples = 10; ///< A size with fewer does not count.
  static constexpr std::size_t kExtras = 9;        ///< Of sampling and drafting.
  static constexpr std::size_t kExtrasMin = 5;
  static constexpr std::size_t kRowCounts = 1024; ///< Numbers of sequences that are remembered.

  /// A step on the graph of `size` tokens that the curve says takes `curve_ps`. @pre size >= 1
  void learn(std::int64_t size, std::int64_t curve_ps, std::int64_t verify_ps);
  /// Sampling and drafting of a step of `rows` sequences.
  void learn_extra(std::int64_t rows, std::int64_t extra_ps);

  /// Median over sizes of the median of (measured - curve) / size, never below 0.
  std::int64_t token_ps();
  /// Median of the last steps with as many sequences, of any when those are too few, else 0.
  std::int64_t extra_ps(std::int64_t rows) const;

  std::string text() const;
  /// @return false, and nothing is learnt, when `text` is no such text
  bool read(const std::string& text);

private:
  struct Step {
    std::int64_t size = 0;
    std::int64_t token_ps = 0; ///< Above the curve.
  };
  using Window = std::deque<std::int64_t>;

  void add_step(Step step);
  static void add_to(Window& window, std::int64_t ps);

  std::deque<Step> steps_; ///< The newest last.
  std::map<std::int64_t, Window> extras_by_rows_;
  Window extras_;
  std::int64_t token_ps_ = 0;
  bool token_known_ = true; ///< token_ps_ is that of steps_.
};

} // namespace troupe::sched
