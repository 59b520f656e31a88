#include "actors/app/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

namespace troupe::app {

namespace {

constexpr std::int64_t kTerminalEveryUs = 200'000;
constexpr std::int64_t kLineEveryUs = 10'000'000;
constexpr std::int64_t kRateWindowUs = 2'000'000;
constexpr std::int64_t kBarCells = 20;

std::string clock_text(std::int64_t seconds) {
  if (seconds >= 3600) {
    return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
  }
  return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
}

std::string bar(std::int64_t done, std::int64_t total) {
  const std::int64_t full = total <= 0 ? kBarCells : std::min(done * kBarCells / total, kBarCells);
  std::string out = "[";
  out.append(static_cast<std::size_t>(full), '#');
  out.append(static_cast<std::size_t>(kBarCells - full), '-');
  return out + "] ";
}

} // namespace

RequestCounts request_counts(std::int64_t running, std::int64_t waiting, std::int64_t queued) {
  const std::int64_t unrouted =
      std::clamp<std::int64_t>(queued, 0, std::max<std::int64_t>(running, 0));
  return {running - unrouted, waiting + unrouted};
}

ProgressStyle progress_style(bool is_quiet) {
  ProgressStyle style;
  style.is_quiet = is_quiet;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool is_plain = (no_color != nullptr && *no_color != '\0') || term == nullptr ||
                        std::string_view(term) == "dumb";
  style.is_terminal = !is_plain && ::isatty(STDERR_FILENO) == 1;
  winsize size{};
  if (style.is_terminal && ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    style.width = size.ws_col;
  }
  return style;
}

std::string ProgressLine::update(const ProgressState& state, std::int64_t now_us) {
  if (style_.is_quiet) {
    return {};
  }
  if (!is_started_) {
    is_started_ = true;
    start_us_ = printed_us_ = rate_us_ = now_us;
    if (!style_.is_terminal) {
      return {};
    }
  } else if (now_us - printed_us_ < (style_.is_terminal ? kTerminalEveryUs : kLineEveryUs)) {
    return {};
  }
  printed_us_ = now_us;
  if (now_us - rate_us_ >= kRateWindowUs) {
    const double seconds = static_cast<double>(now_us - rate_us_) / 1e6;
    prompt_rate_ = static_cast<double>(state.prompt_tokens - rate_prompt_tokens_) / seconds;
    completion_rate_ =
        static_cast<double>(state.completion_tokens - rate_completion_tokens_) / seconds;
    rate_us_ = now_us;
    rate_prompt_tokens_ = state.prompt_tokens;
    rate_completion_tokens_ = state.completion_tokens;
  }
  std::string text = line(state, now_us);
  if (!style_.is_terminal) {
    return text + "\n";
  }
  const auto columns = static_cast<std::size_t>(std::max<std::int64_t>(style_.width - 1, 10));
  if (text.size() > columns) {
    text.resize(columns);
  }
  is_drawn_ = true;
  return "\r\x1b[K" + text;
}

std::string ProgressLine::clear() {
  if (!is_drawn_) {
    return {};
  }
  is_drawn_ = false;
  return "\r\x1b[K";
}

std::string ProgressLine::line(const ProgressState& state, std::int64_t now_us) const {
  const std::int64_t done = state.succeeded + state.failed;
  std::string out = style_.is_terminal && state.total >= 0 ? bar(done, state.total) : "";
  out += fmt::format("{}{} done", done, state.total < 0 ? "" : fmt::format("/{}", state.total));
  if (state.failed > 0) {
    out += fmt::format(", {} failed", state.failed);
  }
  out += fmt::format(", {:.0f} tok/s in, {:.0f} out, {} running, {} waiting", prompt_rate_,
                     completion_rate_, state.requests.running, state.requests.waiting);
  const std::int64_t elapsed_us = now_us - start_us_;
  if (state.total > done && state.run_done > 0 && elapsed_us > 0) {
    const double left_s = static_cast<double>(state.total - done) *
                          static_cast<double>(elapsed_us) / static_cast<double>(state.run_done) /
                          1e6;
    out += ", ETA " + clock_text(static_cast<std::int64_t>(std::min(left_s, 1e8)));
  }
  return out;
}

} // namespace troupe::app
