#include "schedulers/policies/draft_length/graph_residuals.hpp"

#include "schedulers/model/graph_curve.hpp"

#include <algorithm>
#include <charconv>
#include <vector>

namespace troupe::sched {
namespace {

std::int64_t median_of(const std::deque<std::int64_t>& window) {
  return median({window.begin(), window.end()});
}

/// Numbers of a text, each followed by one blank; false at anything else.
class Numbers {
public:
  explicit Numbers(const std::string& text) : at_(text.data()), end_(at_ + text.size()) {}

  bool next(std::int64_t& value) {
    const auto [rest, failed] = std::from_chars(at_, end_, value);
    if (failed != std::errc{} || rest == end_ || *rest != ' ') return false;
    at_ = rest + 1;
    return true;
  }
  /// The number of things that follow, at most `most`.
  bool count(std::int64_t& value, std::size_t most) {
    return next(value) && value >= 0 && value <= static_cast<std::int64_t>(most);
  }
  bool ended() const { return at_ == end_; }

private:
  const char* at_;
  const char* end_;
};

} // namespace

void GraphResiduals::add_step(Step step) {
  steps_.push_back(step);
  if (steps_.size() > kSteps) steps_.pop_front();
  token_known_ = false;
}

void GraphResiduals::add_to(Window& window, std::int64_t ps) {
  window.push_back(ps);
  if (window.size() > kExtras) window.pop_front();
}

void GraphResiduals::learn(std::int64_t size, std::int64_t curve_ps, std::int64_t verify_ps) {
  add_step({size, (verify_ps - curve_ps) / std::max<std::int64_t>(1, size)});
}

void GraphResiduals::learn_extra(std::int64_t rows, std::int64_t extra_ps) {
  add_to(extras_, extra_ps);
  add_to(extras_by_rows_[rows], extra_ps);
  if (extras_by_rows_.size() > kRowCounts) extras_by_rows_.erase(extras_by_rows_.begin());
}

std::int64_t GraphResiduals::token_ps() {
  if (token_known_) return token_ps_;
  std::map<std::int64_t, std::vector<std::int64_t>> by_size;
  for (const Step& step : steps_)
    by_size[step.size].push_back(step.token_ps);
  std::vector<std::int64_t> medians;
  for (auto& [size, values] : by_size) {
    if (values.size() >= kGraphSamples) medians.push_back(median(std::move(values)));
  }
  token_ps_ = std::max<std::int64_t>(0, median(std::move(medians)));
  token_known_ = true;
  return token_ps_;
}

std::int64_t GraphResiduals::extra_ps(std::int64_t rows) const {
  const auto same = extras_by_rows_.find(rows);
  if (same != extras_by_rows_.end() && same->second.size() >= kExtrasMin) {
    return median_of(same->second);
  }
  return extras_.size() >= kExtrasMin ? median_of(extras_) : 0;
}

std::string GraphResiduals::text() const {
  std::string text;
  const auto add = [&](std::int64_t number) { text += std::to_string(number) + ' '; };
  const auto add_window = [&](const Window& window) {
    add(static_cast<std::int64_t>(window.size()));
    for (const std::int64_t ps : window)
      add(ps);
  };
  add(static_cast<std::int64_t>(steps_.size()));
  for (const Step& step : steps_) {
    add(step.size);
    add(step.token_ps);
  }
  add_window(extras_);
  add(static_cast<std::int64_t>(extras_by_rows_.size()));
  for (const auto& [rows, window] : extras_by_rows_) {
    add(rows);
    add_window(window);
  }
  return text;
}

bool GraphResiduals::read(const std::string& text) {
  GraphResiduals made;
  Numbers numbers(text);
  std::int64_t count = 0;
  const auto read_window = [&](Window& window) {
    std::int64_t size = 0;
    bool good = numbers.count(size, kExtras);
    for (std::int64_t ps = 0; good && size > 0; --size) {
      good = numbers.next(ps);
      window.push_back(ps);
    }
    return good;
  };
  bool good = numbers.count(count, kSteps);
  for (Step step; good && count > 0; --count) {
    good = numbers.count(step.size, std::size_t{1} << 40) && numbers.next(step.token_ps);
    made.add_step(step);
  }
  good = good && read_window(made.extras_) && numbers.count(count, kRowCounts);
  for (std::int64_t rows = 0; good && count > 0; --count)
    good = numbers.next(rows) && read_window(made.extras_by_rows_[rows]);
  if (!good || !numbers.ended()) return false;
  *this = std::move(made);
  return true;
}

} // namespace troupe::sched
