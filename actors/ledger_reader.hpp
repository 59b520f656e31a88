// Reads the segments of a ledger in order, over whatever is torn, damaged or missing.

#pragma once

#include "actors/ledger_segment.hpp"
#include "schedulers/core/result.hpp"
#include "schedulers/stage/ledger_entry.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors {

/// What could not be read.
struct LedgerFault {
  std::string file;
  std::int64_t offset = 0; ///< Of the first byte that was not read.
  std::int64_t bytes = 0;  ///< Not read, from there on.
  bool torn = false;       ///< The end of a segment whose writer was stopped.
  std::string what;
  /// Torn at the end of the ledger, or where the next run went on: nothing else is gone.
  bool is_expected = false;
};

/// Whether anything is gone that a writer had written, or stands where it should not.
bool is_damaged(const std::vector<LedgerFault>& faults);

/// "FILE:OFFSET: what was found; n bytes are skipped".
std::string fault_text(const LedgerFault& fault);

/// One pass over a folder: every entry that can be read, once. Numbers ascend: an entry whose
/// number came before is a fault.
///
///   Thread  one owner
class LedgerReader {
public:
  /// Errors name the folder: it does not exist, or holds no segment.
  static Result<LedgerReader> open(const std::string& folder);

  /// The next entry in order. A set that went live in a part that is gone comes as an entry with
  /// the number of the one after it.
  std::optional<sched::LedgerEntry> next();

  /// So far.
  const std::vector<LedgerFault>& faults() const noexcept { return faults_; }
  /// Entries so far that have a number and are not there.
  std::int64_t lost() const noexcept { return lost_; }
  /// Whether so far a head or an entry could be read.
  bool has_read() const noexcept { return has_read_; }
  /// Versions of the programs that wrote what was read so far.
  const std::set<std::string>& builds() const noexcept { return builds_; }

private:
  LedgerReader(std::string folder, std::vector<std::uint64_t> segments)
      : folder_(std::move(folder)), segments_(std::move(segments)) {}

  void begin_segment();
  void end_segment();
  std::optional<sched::LedgerEntry> set_of_head();
  void take_head(const SegmentHead& head);
  bool take(const sched::LedgerEntry& entry);
  void end_repeated();

  std::string folder_;
  std::vector<std::uint64_t> segments_;
  std::size_t at_ = 0; ///< The segment that is open, or comes next.
  std::optional<SegmentReader> segment_;
  std::size_t head_sets_ = 0; ///< Sets of the head that were looked at.
  LedgerDecoder decoder_;
  std::vector<LedgerFault> faults_;
  std::map<PolicyEpoch, std::string> sets_; ///< As encoded: told already.
  std::set<std::string> builds_;
  std::optional<std::uint64_t> next_number_;
  /// First and last number of a run of entries that came before.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> repeated_;
  bool has_read_ = false;
  std::int64_t lost_ = 0;
};

/// Gives every entry of a folder to `take`, in order. Returns what could not be read.
Result<std::vector<LedgerFault>> read_ledger(const std::string& folder,
                                             const std::function<void(sched::LedgerEntry&&)>& take);

/// Where a folder ends.
struct LedgerEnd {
  std::uint64_t next_number = 0; ///< After all that can be read; 0 without a ledger.
  PolicyEpoch highest_epoch{};   ///< Of a set; 0 without one.
};

/// Looks at the last segments only. A folder without a ledger is one that begins.
LedgerEnd end_of_ledger(const std::string& folder);

} // namespace troupe::actors
