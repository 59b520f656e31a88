// A running system on real threads: starts the actors, listens, interrupts, ends them.

#pragma once

#include "actors/app/control_desk.hpp"
#include "actors/app/progress.hpp"
#include "actors/app/summary.hpp"
#include "actors/app/system_actors.hpp"
#include "actors/app/top_board.hpp"
#include "actors/messages.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::app {

/// A running system. Owns threads; the destructor ends them, but for those that hang in an engine.
///
///   Thread   one owner (the main thread)
class LocalSystem {
public:
  /// Starts all actors; the job begins to run. What it throws may leave threads behind:
  /// left_threads() is true then.
  LocalSystem(SystemOptions options, std::vector<OpenedRank> ranks);
  ~LocalSystem();
  LocalSystem(const LocalSystem&) = delete;
  LocalSystem& operator=(const LocalSystem&) = delete;

  using StateHandler = std::function<void(const actors::JobState&)>;
  using PieceHandler = std::function<void(const actors::Piece&)>;

  /// Handles what has come for the listener, waiting at most 100 ms. True while the job runs.
  bool receive(const StateHandler& on_state, const PieceHandler& on_piece);

  /// Ctrl-C: 1 = no new requests, 2 = stop now.
  void interrupt(std::int32_t level);

  /// Ends all actors, waiting a bounded time for what a rank is in the middle of. Times and counts
  /// of the run are complete afterwards.
  void stop();

  /// Whether a system of this process had to leave a thread behind, one that hangs or that nobody
  /// could end: then the process must end without destructors of static objects.
  static bool left_threads() noexcept;

  /// Fills what the system knows: histograms, ranks, scheduling time, messages. @pre stop()
  void add_to(RunSummary& summary) const;

  /// What the driver counts as running and waiting, as everybody is told: requests that wait for a
  /// rank do not run.
  RequestCounts count_requests(std::int64_t running, std::int64_t waiting) const;

  /// Fills what the system knows at this moment: stages, ranks, messages, ledger. Waiting requests
  /// of the chunker are taken from `running`, where the driver counts them.
  void add_to(actors::MetricsSample& sample) const;

  /// The desk of this system for its doors; `board` knows the job. It is to be given up before this
  /// system is destroyed. Once.
  std::shared_ptr<ControlDesk> open_desk(std::shared_ptr<const TopBoard> board);

  /// What each rank did and holds, ascending by rank.
  const std::vector<std::shared_ptr<actors::RankTotals>>& totals() const;

  const SystemActors& actors() const;
  /// Ascending by id.
  const std::vector<std::string>& rank_names() const;

private:
  struct State;
  /// The last of the systems that cannot be destroyed without a hang, a list; null = none.
  static State*& parked() noexcept;
  /// Puts `state_` there. Takes no memory.
  void park() noexcept;
  void start_all(SystemOptions options, std::vector<OpenedRank> ranks);

  std::unique_ptr<State> state_;
};

} // namespace troupe::app
