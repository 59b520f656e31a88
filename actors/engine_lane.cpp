#include "actors/engine_lane.hpp"

#include "schedulers/core/check.hpp"

#include <utility>

namespace troupe::actors {

EngineLane::EngineLane(std::shared_ptr<RankPulse> pulse, Wake wake)
    : pulse_(std::move(pulse)), wake_(std::move(wake)) {
  if (wake_) thread_ = std::thread([this] { run(); });
}

EngineLane::~EngineLane() {
  close();
  if (thread_.joinable()) thread_.join();
}

std::uint64_t EngineLane::submit(LaneJob job) {
  std::unique_lock lock(mutex_);
  Piece piece{++tickets_, std::move(job), nullptr};
  if (piece.job.is_step) {
    TROUPE_CHECK(open_steps_ < kStepsMax, "a lane is given two steps at most");
    ++open_steps_;
  }
  const std::uint64_t ticket = piece.ticket;
  if (has_thread()) {
    (piece.job.is_step ? steps_ : calls_).push_back(std::move(piece));
    changed_.notify_one();
    return ticket;
  }
  lock.unlock();
  piece.job.work();
  if (!piece.job.is_step) {
    piece.job.then();
    return ticket;
  }
  lock.lock();
  done_.emplace(ticket, std::move(piece));
  return ticket;
}

void EngineLane::finish(std::uint64_t ticket) {
  std::unique_lock lock(mutex_);
  const auto found = done_.find(ticket);
  if (found == done_.end()) return;
  const Piece piece = std::move(found->second);
  done_.erase(found);
  if (piece.job.is_step) --open_steps_;
  lock.unlock();
  if (piece.thrown) std::rethrow_exception(piece.thrown);
  piece.job.then();
}

bool EngineLane::close() {
  const std::lock_guard lock(mutex_);
  stop_ = true;
  steps_.clear();
  calls_.clear();
  changed_.notify_one();
  return runs_;
}

void EngineLane::note_work(bool waits) {
  const std::lock_guard lock(mutex_);
  if (runs_ || !steps_.empty() || !calls_.empty() || stands_ == waits) return;
  stands_ = waits;
  since_ = Clock::now();
}

std::int64_t EngineLane::last_idle_us() const {
  const std::lock_guard lock(mutex_);
  return std::chrono::duration_cast<std::chrono::microseconds>(last_idle_).count();
}

std::int64_t EngineLane::idle_us() const {
  const std::lock_guard lock(mutex_);
  return std::chrono::duration_cast<std::chrono::microseconds>(idle_).count();
}

/// The next piece; false when the lane ends.
bool EngineLane::take(Piece& piece) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stop_ || !calls_.empty() || !steps_.empty(); });
  if (stop_) return false;
  std::deque<Piece>& from = calls_.empty() ? steps_ : calls_;
  piece = std::move(from.front());
  from.pop_front();
  runs_ = true;
  if (piece.job.is_step) {
    last_idle_ = stands_ ? Clock::now() - since_ : Clock::duration{0};
    idle_ += last_idle_;
  }
  stands_ = false;
  return true;
}

void EngineLane::work_off(Piece& piece) {
  const RankPulse::Work beat(pulse_->lane());
  try {
    piece.job.work();
  } catch (...) {
    piece.thrown = std::current_exception();
  }
}

void EngineLane::run() {
  for (Piece piece; take(piece);) {
    work_off(piece);
    const std::uint64_t ticket = piece.ticket;
    {
      const std::lock_guard lock(mutex_);
      runs_ = false;
      // After an exception nothing is to run: the owner ends when it hears of it.
      if (piece.thrown) stop_ = true;
      done_.emplace(ticket, std::move(piece));
      stands_ = steps_.empty() && calls_.empty();
      since_ = Clock::now();
    }
    wake_(ticket);
    piece = {};
  }
}

} // namespace troupe::actors
