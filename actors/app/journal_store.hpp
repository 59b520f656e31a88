// The tables of a journal: plain rows in, plain rows out. The protocol around them is journal.cpp.
//
// An open store holds the database exclusively, so a second process is refused at once.

#pragma once

#include "schedulers/core/digest.hpp"
#include "schedulers/core/result.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::app {

/// Where a line stands. Values are stored.
enum class LineState : std::uint8_t {
  pending = 0,
  parked_success = 1, ///< Finished, its text waits in its row for earlier lines.
  parked_failure = 2,
  succeeded = 3, ///< In the output.
  failed = 4     ///< In the errors.
};

struct StoredLine {
  std::int64_t index = 0; ///< From 1, in input order.
  std::int64_t number = 0;
  std::int64_t offset = 0;
  std::int64_t length = 0;
  Digest digest;
  std::optional<std::string> custom_id;
  bool is_too_long = false;
  std::int64_t duplicate_of = 0; ///< Number of the line that had the custom_id first, or 0.
};

struct ParkedLine {
  std::int64_t index = 0;
  bool is_success = false;
  std::string text;
};

/// The next texts that can go into the files in input order.
struct ParkedPrefix {
  std::vector<ParkedLine> lines;
  std::int64_t last = 0; ///< Every line up to this one is in `lines` or in the files already.
};

/// The one row of the job.
struct StoredJob {
  std::string job_id;
  std::int64_t start_us = 0;
  std::string state; ///< "running", "stopped", "finished".
  std::int64_t lines = 0;
  std::int64_t output_bytes = 0; ///< Committed length.
  std::int64_t errors_bytes = 0; ///< Committed length.
  std::int64_t succeeded = 0;    ///< Lines with a result, parked ones included.
  std::int64_t failed = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
};

struct StoredIdentity {
  std::string name;
  std::string value;
  bool only_warns = false;
};

/// One open journal file.
///
///   Thread   one owner
///   Errors   busy, mismatch (no journal, of a newer version, or moved, replaced or cut by somebody
///            while it is open), io_error (full disk and the like)
class JournalStore {
public:
  /// Opens or makes the file and begins an exclusive transaction.
  static Result<std::unique_ptr<JournalStore>> open(const std::string& path);
  ~JournalStore();
  JournalStore(const JournalStore&) = delete;
  JournalStore& operator=(const JournalStore&) = delete;

  Status begin();
  Status commit();
  void rollback() noexcept;

  /// False for a file without a job.
  Result<bool> has_job();
  /// Makes empty tables in place of whatever is there.
  Status create_tables();

  Status add_line(const StoredLine& line);
  Status save_job(const StoredJob& job);
  Result<StoredJob> job();
  Status add_identity(const StoredIdentity& entry);
  Result<std::vector<StoredIdentity>> identity();

  /// Pending lines after `index`, at most `count_max` and as many as fit `bytes_max`, at least one.
  Result<std::vector<StoredLine>> pending_after(std::int64_t index, std::int64_t count_max,
                                                std::int64_t bytes_max);

  /// Moves a line out of pending; false when it has a result already or does not exist.
  Result<bool> leave_pending(std::int64_t index, LineState state, std::string_view text);

  /// Parked lines after `index` as far as nothing before them is pending, at most `bytes_max` of
  /// text but at least one.
  Result<ParkedPrefix> parked_after(std::int64_t index, std::int64_t bytes_max);

  /// Parked lines of [first, last] are in the files now; their texts are dropped.
  Status mark_written(std::int64_t first, std::int64_t last);

private:
  struct State;
  explicit JournalStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

} // namespace troupe::app
