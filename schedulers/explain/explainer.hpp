// Finds a request in a ledger and tells its story.

#pragma once

#include "schedulers/explain/story.hpp"
#include "schedulers/stage/ledger_entry.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe::sched {

/// Fed a ledger's entries in their order, it keeps those of one request's time.
///
///   Thread   one owner
///   Cost     a copy of each entry of that time; O(live requests) of memory besides
class Explainer {
public:
  /// @param who  a custom_id, or the number of a request when nothing is named so
  explicit Explainer(std::string who);
  ~Explainer();

  void take(const LedgerEntry& entry);

  /// The process that keeps the ledger runs, and its clock says `at_us`: a request that it took up
  /// and that has not ended is told until then. After the last entry.
  void runs_until(std::int64_t at_us);

  /// A story for each request of that name, ascending: one a choice of its line. Of a request that
  /// several runs met, as after a restart, that of the last run. Empty: there is none.
  std::vector<Story> stories() const;

  /// Requests that the ledger names or saw arrive.
  std::int64_t requests_seen() const noexcept;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace troupe::sched
