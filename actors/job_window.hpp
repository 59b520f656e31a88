// Which lines of a batch job are in work: bounded, interruptible, one ending per line.
//
// A line leaves the window when its answer is durable, or when it goes back to the input. Memory is
// that of `inflight_max` lines whatever the size of the job.

#pragma once

#include "schedulers/core/ids.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

namespace troupe::actors {

/// Most choices one line may have; fixes how a RequestId is made of line and choice.
inline constexpr std::int64_t kChoicesPerLineMax = 1024;

/// The request of a choice: the same in every run of the job.
constexpr RequestId request_of(std::int64_t line, std::int64_t choice) noexcept {
  return RequestId{static_cast<std::uint64_t>((line + 1) * kChoicesPerLineMax + choice)};
}
constexpr std::int64_t line_of(RequestId request) noexcept {
  return static_cast<std::int64_t>(raw(request)) / kChoicesPerLineMax - 1;
}
constexpr std::int64_t choice_of(RequestId request) noexcept {
  return static_cast<std::int64_t>(raw(request)) % kChoicesPerLineMax;
}

/// The window. Pure: it only says what the driver should do.
class JobWindow {
public:
  explicit JobWindow(std::int64_t inflight_max) : inflight_max_(inflight_max) {}

  /// Lines to ask the store for now; 0 while an answer is due or there is no room. Counts as asked.
  std::int64_t ask();

  /// The store delivered a line / said that no more come / answered an ask.
  void delivered(std::int64_t line);
  void answered_ask(bool end);

  /// A line has this many requests to run. False when the line has gone back meanwhile.
  bool rendered(std::int64_t line, std::int64_t choices);

  /// The next request that may start, if any; lines in order of rendering.
  bool next_request(RequestId& request);

  /// A request produced tokens: its line finishes even after an interrupt.
  void decoding(RequestId request);

  /// A line's answer exists. False when the line is not in the window (it went back).
  bool answered(std::int64_t line);

  /// A line's answer is durable.
  void written(std::int64_t line);

  /// First Ctrl-C: nothing new; lines without a token go back. Returns those.
  std::vector<std::int64_t> interrupt();

  /// Second Ctrl-C or a fatal error: every unanswered line goes back. Returns those.
  std::vector<std::int64_t> stop_all();

  /// True when nothing is in work and nothing more will be.
  bool drained() const noexcept;
  /// True when every line of the input was answered.
  bool complete() const noexcept { return drained() && end_ && !interrupted_ && went_back_ == 0; }

  /// True when every line in the window is answered and none is asked for: only what is being
  /// written is waited for.
  bool awaits_store() const noexcept;

  bool contains(std::int64_t line) const { return lines_.contains(line); }
  std::int64_t started_requests(std::int64_t line) const;
  std::int64_t in_flight() const noexcept { return static_cast<std::int64_t>(lines_.size()); }
  bool interrupted() const noexcept { return interrupted_; }

private:
  struct Line {
    std::int64_t choices = 0;
    std::int64_t started = 0; ///< Requests handed out by next_request.
    bool decoding = false;
    bool answered = false;
  };

  template <class Which>
  std::vector<std::int64_t> send_back(Which which);

  std::int64_t inflight_max_;
  std::int64_t asked_ = 0;
  std::int64_t went_back_ = 0;
  bool end_ = false;
  bool interrupted_ = false;
  std::map<std::int64_t, Line> lines_;
  std::deque<RequestId> ready_;
};

} // namespace troupe::actors
