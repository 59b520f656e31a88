#include "actors/job_window.hpp"

#include <algorithm>

namespace troupe::actors {

std::int64_t JobWindow::ask() {
  if (end_ || interrupted_ || asked_ > 0) return 0;
  const std::int64_t room = inflight_max_ - in_flight();
  // A quarter at a time: few messages, and the ranks never run dry.
  if (room < std::max<std::int64_t>(1, inflight_max_ / 4) && in_flight() > 0) return 0;
  asked_ = room;
  return room;
}

void JobWindow::delivered(std::int64_t line) {
  if (interrupted_) {
    ++went_back_;
    return;
  }
  lines_.emplace(line, Line{});
}

void JobWindow::answered_ask(bool end) {
  asked_ = 0;
  end_ = end_ || end;
}

bool JobWindow::rendered(std::int64_t line, std::int64_t choices) {
  const auto found = lines_.find(line);
  if (found == lines_.end()) return false;
  found->second.choices = choices;
  for (std::int64_t choice = 0; choice < choices; ++choice) {
    ready_.push_back(request_of(line, choice));
  }
  return true;
}

bool JobWindow::next_request(RequestId& request) {
  while (!ready_.empty()) {
    request = ready_.front();
    ready_.pop_front();
    const auto found = lines_.find(line_of(request));
    if (found == lines_.end()) continue;
    ++found->second.started;
    return true;
  }
  return false;
}

void JobWindow::decoding(RequestId request) {
  const auto found = lines_.find(line_of(request));
  if (found != lines_.end()) found->second.decoding = true;
}

bool JobWindow::answered(std::int64_t line) {
  const auto found = lines_.find(line);
  if (found == lines_.end()) return false;
  found->second.answered = true;
  return true;
}

void JobWindow::written(std::int64_t line) { lines_.erase(line); }

bool JobWindow::awaits_store() const noexcept {
  return asked_ == 0 && !lines_.empty() &&
         std::all_of(lines_.begin(), lines_.end(),
                     [](const auto& item) { return item.second.answered; });
}

template <class Which>
std::vector<std::int64_t> JobWindow::send_back(Which which) {
  std::vector<std::int64_t> back;
  for (const auto& [number, line] : lines_) {
    if (which(line)) back.push_back(number);
  }
  went_back_ += static_cast<std::int64_t>(back.size());
  return back;
}

std::vector<std::int64_t> JobWindow::interrupt() {
  interrupted_ = true;
  return send_back([](const Line& line) { return !line.decoding && !line.answered; });
}

std::vector<std::int64_t> JobWindow::stop_all() {
  interrupted_ = true;
  return send_back([](const Line& line) { return !line.answered; });
}

bool JobWindow::drained() const noexcept {
  // An interrupted job waits for no lines: standard input may never give any.
  return lines_.empty() && (interrupted_ || (end_ && asked_ == 0));
}

std::int64_t JobWindow::started_requests(std::int64_t line) const {
  const auto found = lines_.find(line);
  return found == lines_.end() ? 0 : found->second.started;
}

} // namespace troupe::actors
