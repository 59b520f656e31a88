// Durable progress of a batch job: which lines are answered, and how long both files are.
//
// Results are appended, synced, then committed in one transaction; whatever moment the process dies
// at, the same command cuts the files to their committed lengths and goes on. Nothing here knows
// about requests: lines come out, finished lines go in.

#pragma once

#include "actors/app/batch_files.hpp"
#include "actors/app/batch_line.hpp"
#include "schedulers/core/result.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::app {

enum class OutputOrder : std::uint8_t { completion, input };

/// What answers depend on. A job goes on only when all of it is the same.
struct JobIdentity {
  /// Name and value, in a fixed order; the digest of the input is added by the journal.
  std::vector<std::pair<std::string, std::string>> fields;
  /// Recorded too, but another value only warns: last bits may differ. (CPU path, numerics.)
  std::vector<std::pair<std::string, std::string>> numerics;
};

struct JobOptions {
  OutputOrder order = OutputOrder::completion;
  bool restart = false; ///< Begin anew, whatever is there.
  std::int64_t line_bytes_max = 16LL << 20;
  std::int64_t now_us = 0; ///< Wall clock, µs since 1970: start of the job when it is a new one.
  /// Called with the name of each point around a write, a sync and a commit. For tests.
  std::function<void(const char* point)> at_write;
};

/// What is known about a job.
struct JobFacts {
  std::string job_id;         ///< "batch_" and 24 hex digits.
  std::int64_t start_us = 0;  ///< Wall clock of the first start: `created` of all responses.
  std::int64_t lines = -1;    ///< In the input; -1 unknown (standard input).
  std::int64_t succeeded = 0; ///< Lines in the output.
  std::int64_t failed = 0;    ///< Lines in the errors.
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  bool is_resumed = false;  ///< An earlier run of this job was found.
  bool is_finished = false; ///< Nothing is left to do.
  std::vector<std::string> warnings;

  std::int64_t done() const noexcept { return succeeded + failed; }
};

/// A line to work on.
struct PendingLine {
  std::int64_t index = 0;   ///< Names the line in commit(); ascending.
  std::int64_t number = 0;  ///< Line of the file, from 1.
  BatchLineOutcome outcome; ///< Duplicates and lines that are too long are errors here already.
};

struct NextLines {
  std::vector<PendingLine> lines; ///< In input order.
  bool at_end = false;            ///< No line will come after these.
};

/// A finished line.
struct LineResult {
  std::int64_t index = 0;
  bool is_success = false; ///< Goes to the output, else to the errors.
  std::string text;        ///< The whole line, without newline.
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
};

/// One batch job with its files.
///
///   Thread   one owner at a time; commit and finish block on the disk
///   Errors   after a failed write, sync or commit every further call fails: nothing is retried.
///            The message says what happened and that the same command goes on
///   Owns     locks on both files and on the journal until it is destroyed
class BatchJob {
public:
  virtual ~BatchJob() = default;

  virtual const JobFacts& facts() const noexcept = 0;

  /// At most `count_max` lines that have no result yet, each once per run. With standard input it
  /// waits at most 50 ms, so that no line and not `at_end` is possible.
  ///
  /// Errors: mismatch when the input changed while running.
  virtual Result<NextLines> next_lines(std::int64_t count_max) = 0;

  /// Makes results durable. A line that has a result already keeps it: the second is dropped.
  ///
  /// @post the files hold these lines; with OutputOrder::input as far as all earlier ones are done
  virtual Status commit(std::span<const LineResult> results) = 0;

  /// A clean stop before the end: the files are as long as the journal says from now on.
  virtual Status stop() = 0;

  /// The end. Removes an empty errors file. @pre every line has a result
  virtual Status finish() = 0;

  /// Removes what opening made: a job that cannot begin leaves no trace. Ends the use of the job.
  /// @pre nothing was committed in this run
  virtual void discard() noexcept {}
};

/// Opens the journal of a job or begins one: pass 1 over the input, then one transaction.
///
/// Errors: mismatch (with what differs), busy (a second process), io_error, bad_argument (paths,
/// or an output that is not empty and has no journal). Nothing is changed by a refusal.
/// @pre paths.input is not "-"
Result<std::unique_ptr<BatchJob>> open_journal(const BatchPaths& paths, const JobIdentity& identity,
                                               const JobOptions& options);

/// A job on standard input: no journal, no second try. The output must be absent or empty.
/// With OutputOrder::input results that must wait are kept in a nameless file beside the output.
Result<std::unique_ptr<BatchJob>>
open_stream_job(const BatchPaths& paths, const JobIdentity& identity, const JobOptions& options);

} // namespace troupe::app
