// Where the actors of a process are.

#pragma once

#include "actors/caf_compat.hpp"
#include "schedulers/core/ids.hpp"

#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace troupe::actors {

/// The living ranks. A rank's next life takes the place of the one before; what was meant for that
/// one reaches the new one and is dropped there by its incarnation. Thread: any.
class RankTable {
public:
  void put(RankId rank, caf::actor actor) {
    const std::unique_lock lock(mutex_);
    ranks_[rank] = std::move(actor);
  }
  /// Empty when there is no such rank.
  caf::actor find(RankId rank) const {
    const std::shared_lock lock(mutex_);
    const auto found = ranks_.find(rank);
    return found == ranks_.end() ? caf::actor{} : found->second;
  }
  /// Ascending by id.
  std::vector<caf::actor> all() const {
    const std::shared_lock lock(mutex_);
    std::vector<caf::actor> out;
    for (const auto& [id, actor] : ranks_)
      out.push_back(actor);
    return out;
  }
  void clear() {
    const std::unique_lock lock(mutex_);
    ranks_.clear();
  }

private:
  mutable std::shared_mutex mutex_;
  std::map<RankId, caf::actor> ranks_;
};

/// Where everybody is. But for the ranks filled before the first message and read-only afterwards.
struct Peers {
  caf::actor driver;
  caf::actor chunker;
  caf::actor balancer;
  RankTable ranks;
  caf::actor text;     ///< Text worker.
  caf::actor store;    ///< Journal writer.
  caf::actor manager;  ///< Policy manager; may be empty.
  caf::actor experts;  ///< Manager of experts.
  caf::actor listener; ///< Hears JobState; may be empty.

  /// Lets go of everybody: actors that refer to each other through this table are freed by it.
  void clear() {
    for (caf::actor* actor :
         {&driver, &chunker, &balancer, &text, &store, &manager, &experts, &listener})
      *actor = nullptr;
    ranks.clear();
  }
};

} // namespace troupe::actors
