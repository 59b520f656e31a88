// All actors of one process, wired together: ranks, chunker, balancer, driver, text worker, store.

#pragma once

#include "actors/app/journal.hpp"
#include "actors/app/summary.hpp"
#include "actors/app/system_config.hpp"
#include "actors/app/text_desk.hpp"
#include "actors/messages.hpp"
#include "actors/shell.hpp"
#include "engine/engine.hpp"
#include "schedulers/registry/policy_registry.hpp"
#include "schedulers/registry/policy_set.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::app {

/// Everything a system is made of, besides its engines.
struct SystemOptions {
  SystemConfig config;
  sched::PolicySet policies;
  std::shared_ptr<const sched::PolicyRegistry> registry;
  std::shared_ptr<BatchJob> job;
  TextOptions text;             ///< Complete but for what the model decides.
  std::string ledger_directory; ///< "" = no ledger.
  std::int64_t inflight_max = 256;
  bool tell_pieces = false;
  actors::StageTap tap; ///< May be empty.
};

/// Engine options of a rank group.
engine::EngineOptions engine_options(const SystemConfig& config, const RankGroupConfig& group);

/// Opens the engines of all ranks of `config`, one set of weights for all CPU ranks.
struct OpenedRank {
  std::string name; ///< "prefill-0"
  RankGroupConfig group;
  std::shared_ptr<engine::Engine> engine;
};
Result<std::vector<OpenedRank>> open_ranks(const SystemConfig& config);

/// A running system. Owns threads; the destructor ends them.
///
///   Thread   one owner (the main thread)
class LocalSystem {
public:
  /// Starts all actors; the job begins to run.
  LocalSystem(SystemOptions options, std::vector<OpenedRank> ranks);
  ~LocalSystem();
  LocalSystem(const LocalSystem&) = delete;
  LocalSystem& operator=(const LocalSystem&) = delete;

  using StateHandler = std::function<void(const actors::JobState&)>;
  using PieceHandler = std::function<void(const actors::Piece&)>;

  /// Waits until the job ended and returns its last state. Handlers run on this thread.
  ///
  /// @param poll  called at least every 100 ms, so that signals are seen
  actors::JobState wait(const StateHandler& on_state, const PieceHandler& on_piece,
                        const std::function<void()>& poll);

  /// Ctrl-C: 1 = no new requests, 2 = stop now.
  void interrupt(std::int32_t level);

  /// Ends all actors. Times and counts of the run are complete afterwards.
  void stop();

  /// Fills what the system knows: histograms, ranks, scheduling time, messages. @pre stop()
  void add_to(RunSummary& summary) const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace troupe::app
