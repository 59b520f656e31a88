// Owns the calls of one engine: a thread with a short queue, so that its owner never blocks in one.
//
// Pieces of work run one at a time. Steps run in order, at most two wait or run; other calls are
// short and go before a step that waits. Without a thread each piece runs when it is given.

#pragma once

#include "actors/rank_life.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

namespace troupe::actors {

/// A piece of work.
struct LaneJob {
  bool is_step = false;
  std::function<void()> work; ///< On the lane.
  std::function<void()> then; ///< On the owner's thread, once it is told.
};

/// Thread: one owner; what it is given runs on the lane's.
class EngineLane {
public:
  /// Told on the lane's thread that a piece is done. May not throw.
  using Wake = std::function<void(std::uint64_t ticket)>;

  /// @param wake   empty: no thread
  /// @param pulse  beats for each piece on the thread; never null
  EngineLane(std::shared_ptr<RankPulse> pulse, Wake wake);
  /// Drops what has not begun and waits for what has.
  ~EngineLane();
  EngineLane(const EngineLane&) = delete;
  EngineLane& operator=(const EngineLane&) = delete;

  bool has_thread() const noexcept { return thread_.joinable(); }

  /// Takes a piece and returns its ticket. Without a thread it is worked off here; what is no step
  /// also gets its `then`.
  ///
  /// @pre at most kStepsMax steps are given and not finished
  std::uint64_t submit(LaneJob job);

  /// Calls `then` of a piece that is done, or throws what its work threw. Unknown tickets are of
  /// pieces that were dropped.
  void finish(std::uint64_t ticket);

  /// Drops what has not begun. Whether a piece still runs; its ticket will be told.
  bool close();

  /// Whether there is work for steps, as the owner sees it after each event. Only then a thread
  /// that stands still is idle.
  void note_work(bool waits);

  /// Time that the thread stood still before a step while there was work: before the last step
  /// that began, and in all. Only with a thread.
  std::int64_t last_idle_us() const;
  std::int64_t idle_us() const;

private:
  using Clock = std::chrono::steady_clock;

  struct Piece {
    std::uint64_t ticket = 0;
    LaneJob job;
    std::exception_ptr thrown;
  };

  static constexpr std::size_t kStepsMax = 2;

  void run();
  bool take(Piece& piece);
  void work_off(Piece& piece);

  const std::shared_ptr<RankPulse> pulse_;
  const Wake wake_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Piece> steps_;
  std::deque<Piece> calls_;
  std::map<std::uint64_t, Piece> done_;
  std::uint64_t tickets_ = 0;
  std::size_t open_steps_ = 0; ///< Given and not finished.
  bool runs_ = false;
  bool stop_ = false;
  bool stands_ = false; ///< The thread stands still while there is work, since:
  Clock::time_point since_;
  Clock::duration last_idle_{0};
  Clock::duration idle_{0};
  std::thread thread_; ///< Last: it uses all of the above.
};

} // namespace troupe::actors
