// Decides every decision of a ledger again, with the objects that decided it, or with another set.
//
// What a policy answers follows from its options, its state, the question and what it observed; all
// four are entries. So the same version gives the same bytes, and another set can be asked what it
// would have done in each single case.

#pragma once

#include "schedulers/policy/questions.hpp"
#include "schedulers/registry/policy_registry.hpp"
#include "schedulers/registry/policy_set.hpp"
#include "schedulers/stage/ledger_entry.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe::sched {

/// A decision that came out differently.
struct ReplayDifference {
  std::uint64_t number = 0; ///< Of its entry.
  std::int64_t at_us = 0;
  StageRef stage;
  PolicyEpoch epoch{};
  RequestRef ref;  ///< As in the record.
  Asked then;      ///< As recorded.
  Asked now;       ///< The same question with the answer of now.
  std::string why; ///< When the answers do not show it themselves.
};

struct ReplayTotals {
  std::int64_t decisions = 0; ///< Records of policies that were asked.
  std::int64_t equal = 0;
  std::int64_t different = 0;
  std::int64_t skipped = 0; ///< decisions = equal + different + skipped
  /// Of equal and different, with another set: it gave no valid answer, and the default of the kind
  /// answered in its place.
  std::int64_t failed = 0;

  bool operator==(const ReplayTotals&) const = default;
};

struct ReplayReport {
  ReplayTotals all;
  std::map<std::string, ReplayTotals> kinds;
  std::map<std::string, std::int64_t> skipped; ///< By reason.
  std::map<std::string, std::string> failed;   ///< By kind: policy and why, of the first one.
  std::int64_t unbuilt = 0;       ///< Of those skipped: their set cannot be built here.
  std::int64_t unasked = 0;       ///< Records of what nobody had to decide.
  std::int64_t state_differs = 0; ///< Recorded states that replay did not arrive at by itself.
  std::vector<ReplayDifference> first;
};

/// What to ask instead of the sets of the ledger.
struct ReplayOther {
  PolicySet set;
};

/// Fed with the entries of a ledger in order.
///
///   Pure     the same entries give the same report
///   Thread   one owner
class Replayer {
public:
  /// @param registry         outlives it; may know libraries
  /// @param differences_max  kept in the report, the first ones
  explicit Replayer(const PolicyRegistry& registry, std::size_t differences_max = 20);
  /// Asks `other` instead, and compares choices only: scores and reasons are its own.
  /// @pre the set was checked against the registry
  Replayer(const PolicyRegistry& registry, ReplayOther other, std::size_t differences_max = 20);
  ~Replayer();
  Replayer(Replayer&&) noexcept;
  Replayer& operator=(Replayer&&) noexcept;

  /// A set that entries were decided by. A stage can switch before the ledger hears of the set, so
  /// sets are best learned from all entries before the first one is fed.
  void learn(const SetLive& live);

  /// Decides again what `entry` says was decided. A set in it is learned.
  void feed(const LedgerEntry& entry);

  const ReplayReport& report() const noexcept;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace troupe::sched
