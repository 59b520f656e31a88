// Decides about the lives of ranks: who is lost, who gets a new life, and when a role is gone.
//
// A life is an incarnation. It ends when its actor ends, or when it does not return from its work:
// then it is abandoned, and what it still says is of an old incarnation.

#pragma once

#include "schedulers/stage/effects.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe::sched {

struct SupervisedRank {
  RankId rank{};
  Role role = Role::both;
  std::string name;              ///< "prefill-0".
  std::int64_t memory_bytes = 0; ///< What a second life beside an abandoned one needs.
};

struct SupervisorOptions {
  std::vector<SupervisedRank> ranks; ///< All of them; each is alive in incarnation 1.
  std::int64_t restarts_max = 3;     ///< Lives after the first one, of each rank.
  std::int64_t heartbeat_us = 1'000'000;
  /// A life that is so long in one piece of work is stuck. Counted in heartbeats, so that time in
  /// which the whole process stood still is not held against it.
  std::int64_t silence_us_max = 600'000'000;
};

/// One life at a heartbeat: its actor, and the lane of its engine.
struct RankBeat {
  RankRef rank;
  std::uint64_t begun = 0; ///< Pieces of work it began.
  bool works = false;      ///< The last one has not ended.
  std::uint64_t lane_begun = 0;
  bool lane_works = false;
};

struct Heartbeat {
  std::vector<RankBeat> ranks;
  std::int64_t memory_available_bytes = 0; ///< That the process could still take.
};

/// The actor of a life is gone.
struct RankEnded {
  RankRef rank;
  std::string detail;
};

/// The answer to StartRank.
struct RankStarted {
  RankRef rank;
  ErrorCode code = ErrorCode::ok;
  std::string detail;
};

struct SupervisorCounts {
  std::int64_t lost = 0, restarts = 0, abandoned = 0, gone = 0, stale_dropped = 0;
};

/// Pure state machine of the supervisor.
///
///   Thread   one owner
///   Errors   never; a rank that cannot be replaced is gone, a role without rank is told
class SupervisorStage {
public:
  explicit SupervisorStage(SupervisorOptions options);

  void on(const RankEnded& event, std::int64_t now_us, Effects& effects);
  void on(const RankStarted& event, std::int64_t now_us, Effects& effects);
  void on(const Heartbeat& event, std::int64_t now_us, Effects& effects);

  const SupervisorCounts& counts() const noexcept { return counts_; }

private:
  /// States of a rank, in order.
  enum class Life : std::uint8_t {
    up,       ///< Its actor runs.
    starting, ///< StartRank is under way.
    waiting,  ///< A start failed; the next heartbeat tries again.
    gone,     ///< For good.
  };

  struct Entry {
    SupervisedRank facts;
    RankRef ref;
    Life life = Life::up;
    std::int64_t restarts = 0;
    std::uint64_t begun = 0; ///< At the last heartbeat; the next one too.
    std::uint64_t lane_begun = 0;
    std::int64_t silent_us = 0;
    std::string why; ///< Of its last loss.
  };

  Entry* current(RankRef rank);
  void lost(Entry& entry, std::string why, bool replaceable, Effects& effects);
  void start(Entry& entry, Effects& effects);
  void look_at(Entry& entry, const RankBeat& beat, const Heartbeat& event, Effects& effects);
  void tell_if_none_left(Role half, Effects& effects);

  SupervisorOptions options_;
  SupervisorCounts counts_;
  std::map<RankId, Entry> ranks_;
  bool told_prefill_ = false;
  bool told_decode_ = false;
};

} // namespace troupe::sched
