#include "actors/app/journal.hpp"

#include "actors/app/job_files.hpp"
#include "actors/app/journal_store.hpp"
#include "schedulers/core/printable.hpp"

#include <cerrno>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

namespace troupe::app {

namespace {

constexpr std::int64_t kFetchBytesMax = 64LL << 20;
constexpr std::int64_t kFlushBytesMax = 8LL << 20;

std::string bytes_text(std::int64_t bytes) { return std::to_string(bytes) + " bytes"; }

const std::string* value_of(const std::vector<StoredIdentity>& entries, const std::string& name) {
  for (const StoredIdentity& entry : entries) {
    if (entry.name == name) {
      return &entry.value;
    }
  }
  return nullptr;
}

/// The whole identity: what the caller says, and what only the journal knows.
std::vector<StoredIdentity> full_identity(const JobIdentity& identity, const Digest& input,
                                          std::int64_t line_bytes_max) {
  std::vector<StoredIdentity> out;
  out.push_back({"input (digest)", hex(input), false});
  for (const auto& [name, value] : identity.fields) {
    out.push_back({name, value, false});
  }
  if (value_of(out, "limits.line_bytes_max") == nullptr) {
    out.push_back({"limits.line_bytes_max", std::to_string(line_bytes_max), false});
  }
  for (const auto& [name, value] : identity.numerics) {
    out.push_back({name, value, true});
  }
  return out;
}

/// "name: was X, is Y now" for each entry of the given sort that differs.
std::vector<std::string> differences(const std::vector<StoredIdentity>& before,
                                     const std::vector<StoredIdentity>& now, bool only_warns) {
  std::vector<std::string> out;
  for (const StoredIdentity& entry : before) {
    if (entry.only_warns != only_warns) {
      continue;
    }
    const std::string* value = value_of(now, entry.name);
    if (value != nullptr && *value == entry.value) {
      continue;
    }
    out.push_back(printable(entry.name) + " was " + printable(entry.value) + ", is " +
                  (value == nullptr ? "not set" : printable(*value)) + " now");
  }
  for (const StoredIdentity& entry : now) {
    if (entry.only_warns == only_warns && value_of(before, entry.name) == nullptr) {
      out.push_back(entry.name + " was not set, is " + printable(entry.value) + " now");
    }
  }
  return out;
}

class Journal final : public BatchJob {
public:
  Journal(BatchPaths paths, const JobOptions& options, JobFiles files,
          std::unique_ptr<JournalStore> store, bool made_journal)
      : paths_(std::move(paths)), options_(options), files_(std::move(files)),
        store_(std::move(store)), made_journal_(made_journal) {}

  /// Finds or makes the job and brings the files to their committed lengths.
  Status start(const JobIdentity& identity);
  /// The journal turned out to be another process's.
  void disown_journal() noexcept { made_journal_ = false; }

  const JobFacts& facts() const noexcept override { return facts_; }
  Result<NextLines> next_lines(std::int64_t count_max) override;
  Status commit(std::span<const LineResult> results) override;
  Status stop() override;
  Status finish() override;
  void discard() noexcept override;

private:
  Status begin_job(const JobIdentity& identity);
  Result<Digest> read_input();
  Status resume_job(const JobIdentity& identity);
  Status check_identity(const JobIdentity& identity);
  Status check_length(ResultFile file, std::int64_t committed) const;
  void take_facts();

  Status store_results(std::span<const LineResult> results);
  Status flush_parked();
  Status append_and_commit();
  Status set_state(const char* state);
  Status poison(Status status);
  void point(const char* name) const {
    if (options_.at_write) {
      options_.at_write(name);
    }
  }

  BatchPaths paths_;
  JobOptions options_;
  JobFiles files_;
  std::unique_ptr<JournalStore> store_;
  bool made_journal_; ///< It was not there before.
  std::optional<LineFetcher> input_;
  StoredJob job_; ///< As it will be committed next.
  JobFacts facts_;
  std::int64_t handed_out_ = 0; ///< Line that next_lines gave last.
  std::int64_t flushed_to_ = 0; ///< All lines up to this one are in the files.
  bool has_parked_ = false;     ///< Flush the ready prefix after each commit.
  std::string output_text_;     ///< To append in this flush.
  std::string errors_text_;
  Status failure_;
};

Status Journal::poison(Status status) {
  if (status) {
    return status;
  }
  store_->rollback();
  // A mismatch says itself what to do: the same command would be refused.
  const std::string end = status.error().code == ErrorCode::mismatch
                              ? ". The job stopped"
                              : ". The job stopped, its " + std::to_string(facts_.done()) +
                                    " finished lines are safe; when the cause is gone, the same "
                                    "command goes on";
  failure_ = {status.error().code, status.error().message + end};
  return failure_;
}

void Journal::discard() noexcept {
  files_.discard_made();
  store_.reset();
  if (made_journal_) ::unlink(paths_.journal.c_str());
}

// -- opening ------------------------------------------------------------------------------------

Status Journal::start(const JobIdentity& identity) {
  const Result<bool> found = store_->has_job();
  if (!found) {
    return found.status();
  }
  if (!*found || options_.restart) {
    for (const ResultFile file : {ResultFile::output, ResultFile::errors}) {
      if (options_.restart || files_.size(file) == 0) {
        continue;
      }
      return {ErrorCode::mismatch, files_.path(file) +
                                       ": it is not empty and there is no journal of a job "
                                       "beside it (" +
                                       paths_.journal + "); remove it, or empty it with --restart"};
    }
    if (Status status = begin_job(identity); !status) {
      return status;
    }
    if (Status status = store_->begin(); !status) {
      return status;
    }
  }
  facts_.is_resumed = *found && !options_.restart;
  if (Status status = resume_job(identity); !status) {
    return status;
  }
  Result<LineFetcher> input = LineFetcher::open(paths_.input);
  if (!input) {
    return input.status();
  }
  input_.emplace(std::move(*input));
  return {};
}

// Pass 1. A crash before the commit leaves no job, or the old one.
Status Journal::begin_job(const JobIdentity& identity) {
  if (Status status = store_->create_tables(); !status) {
    return status;
  }
  const Result<Digest> input = read_input();
  if (!input) {
    return input.status();
  }
  std::string key = std::to_string(options_.now_us);
  for (const StoredIdentity& entry : full_identity(identity, *input, options_.line_bytes_max)) {
    if (Status status = store_->add_identity(entry); !status) {
      return status;
    }
    key += '\n' + entry.name + '=' + entry.value;
  }
  job_.job_id = "batch_" + hex(digest_of(key)).substr(0, 24);
  job_.start_us = options_.now_us;
  job_.state = "running";
  if (Status status = store_->save_job(job_); !status) {
    return status;
  }
  point("before begin commit");
  if (Status status = store_->commit(); !status) {
    return status;
  }
  point("after begin commit");
  return {};
}

Result<Digest> Journal::read_input() {
  Result<LineReader> reader = LineReader::open(paths_.input, options_.line_bytes_max);
  if (!reader) {
    return reader.error();
  }
  DuplicateFinder duplicates;
  InputLine line;
  for (;;) {
    const Result<ReadState> state = reader->next(line);
    if (!state) {
      return state.error();
    }
    if (*state == ReadState::end) {
      break;
    }
    StoredLine row{++job_.lines, line.number, line.offset, line.length, line.digest, {}, {}, 0};
    row.is_too_long = line.is_too_long;
    if (!line.is_too_long) {
      const BatchLineOutcome outcome = parse_batch_line(line.text);
      if (!outcome.line.custom_id.empty()) {
        row.custom_id = outcome.line.custom_id;
        row.duplicate_of = duplicates.first_line_of(outcome.line.custom_id, line.number);
      }
    }
    if (Status status = store_->add_line(row); !status) {
      return status.error();
    }
  }
  return reader->input_digest();
}

Status Journal::check_identity(const JobIdentity& identity) {
  const Result<Digest> input = digest_of_file(paths_.input);
  if (!input) {
    return input.status();
  }
  const auto now = full_identity(identity, *input, options_.line_bytes_max);
  const Result<std::vector<StoredIdentity>> before = store_->identity();
  if (!before) {
    return before.status();
  }
  const std::vector<std::string> changed = differences(*before, now, false);
  if (!changed.empty() && !facts_.is_resumed) {
    return {ErrorCode::mismatch, paths_.input +
                                     ": it changed while the job was begun, as some files under "
                                     "/proc do, expected an input that stays as it is; write what "
                                     "it holds into a file and give that, or - for standard input"};
  }
  if (!changed.empty()) {
    std::string text;
    for (const std::string& entry : changed) {
      text += (text.empty() ? "" : "; ") + entry;
    }
    return {ErrorCode::mismatch, paths_.journal + ": this job was begun differently: " + text +
                                     ". Go back to what it was, or begin anew with --restart"};
  }
  for (const std::string& entry : differences(*before, now, true)) {
    facts_.warnings.push_back(entry + ": the last bits of log-probabilities, and rarely a token, "
                                      "may differ from those of the earlier lines");
  }
  return {};
}

Status Journal::check_length(ResultFile file, std::int64_t committed) const {
  const std::int64_t size = files_.size(file);
  const bool may_be_longer = job_.state == "running";
  if (size == committed || (size > committed && may_be_longer)) {
    return {};
  }
  if (files_.is_made(file)) {
    return {ErrorCode::mismatch,
            files_.path(file) + ": it is missing, but the journal " + paths_.journal + " knows " +
                bytes_text(committed) +
                " of it: it was removed or moved away; put it back, or begin anew with --restart"};
  }
  return {ErrorCode::mismatch,
          files_.path(file) + ": it has " + bytes_text(size) + ", but the journal " +
              paths_.journal + " knows " + bytes_text(committed) +
              ": somebody changed it; bring the old file back, or begin anew with --restart"};
}

Status Journal::resume_job(const JobIdentity& identity) {
  Result<StoredJob> job = store_->job();
  if (!job) {
    return job.status();
  }
  job_ = std::move(*job);
  if (Status status = check_identity(identity); !status) {
    return status;
  }
  const bool is_finished = job_.state == "finished";
  for (const ResultFile file : {ResultFile::output, ResultFile::errors}) {
    const std::int64_t committed =
        file == ResultFile::output ? job_.output_bytes : job_.errors_bytes;
    if (Status status = check_length(file, committed); !status) {
      return status;
    }
  }
  // Cutting comes before the commit: with it the files may grow again.
  if (Status status = files_.cut(ResultFile::output, job_.output_bytes); !status) {
    return status;
  }
  if (Status status = files_.cut(ResultFile::errors, job_.errors_bytes); !status) {
    return status;
  }
  if (job_.state == "stopped") {
    job_.state = "running";
    if (Status status = store_->save_job(job_); !status) {
      return status;
    }
  }
  if (Status status = store_->commit(); !status) {
    return status;
  }
  take_facts();
  facts_.is_finished = is_finished;
  if (is_finished) {
    return files_.remove_empty_errors();
  }
  // Rows that a run with input order parked go out with the first flush, or at the end.
  has_parked_ = options_.order == OutputOrder::input;
  return {};
}

void Journal::take_facts() {
  facts_.job_id = job_.job_id;
  facts_.start_us = job_.start_us;
  facts_.lines = job_.lines;
  facts_.succeeded = job_.succeeded;
  facts_.failed = job_.failed;
  facts_.prompt_tokens = job_.prompt_tokens;
  facts_.completion_tokens = job_.completion_tokens;
}

// -- running ------------------------------------------------------------------------------------

Result<NextLines> Journal::next_lines(std::int64_t count_max) {
  if (!failure_) {
    return failure_.error();
  }
  NextLines next;
  Result<std::vector<StoredLine>> rows =
      store_->pending_after(handed_out_, count_max, kFetchBytesMax);
  if (!rows) {
    return poison(rows.status()).error();
  }
  next.at_end = rows->empty();
  for (StoredLine& row : *rows) {
    InputLine line{row.number, row.offset, row.length, row.digest, row.is_too_long, {}};
    if (Status status = input_->fetch(line); !status) {
      return poison(status).error();
    }
    PendingLine pending{row.index, row.number, {}};
    if (row.is_too_long) {
      pending.outcome.error = line_too_long_error(row.length, options_.line_bytes_max);
    } else {
      pending.outcome = parse_batch_line(line.text);
    }
    if (row.duplicate_of != 0) {
      pending.outcome.error =
          duplicate_custom_id_error(row.custom_id.value_or(""), row.number, row.duplicate_of);
    }
    handed_out_ = row.index;
    next.lines.push_back(std::move(pending));
  }
  return next;
}

Status Journal::commit(std::span<const LineResult> results) {
  if (!failure_) {
    return failure_;
  }
  if (Status status = store_results(results); !status) {
    return poison(status);
  }
  if (!has_parked_) {
    return {};
  }
  return poison(flush_parked());
}

// With completion order the lines are appended inside the transaction that takes them out of
// pending; the files are synced before it commits.
Status Journal::store_results(std::span<const LineResult> results) {
  const bool parks = options_.order == OutputOrder::input;
  if (Status status = store_->begin(); !status) {
    return status;
  }
  output_text_.clear();
  errors_text_.clear();
  for (const LineResult& result : results) {
    const LineState state =
        parks ? (result.is_success ? LineState::parked_success : LineState::parked_failure)
              : (result.is_success ? LineState::succeeded : LineState::failed);
    const Result<bool> is_first = store_->leave_pending(result.index, state, result.text);
    if (!is_first) {
      return is_first.status();
    }
    if (!*is_first) {
      continue;
    }
    (result.is_success ? job_.succeeded : job_.failed) += 1;
    job_.prompt_tokens += result.prompt_tokens;
    job_.completion_tokens += result.completion_tokens;
    if (parks) {
      has_parked_ = true;
    } else {
      (result.is_success ? output_text_ : errors_text_).append(result.text).append(1, '\n');
    }
  }
  return append_and_commit();
}

Status Journal::flush_parked() {
  for (;;) {
    const Result<ParkedPrefix> parked = store_->parked_after(flushed_to_, kFlushBytesMax);
    if (!parked) {
      return parked.status();
    }
    if (!parked->lines.empty()) {
      output_text_.clear();
      errors_text_.clear();
      for (const ParkedLine& line : parked->lines) {
        (line.is_success ? output_text_ : errors_text_).append(line.text).append(1, '\n');
      }
      if (Status status = store_->begin(); !status) {
        return status;
      }
      Status status = store_->mark_written(flushed_to_ + 1, parked->last);
      if (status) {
        status = append_and_commit();
      }
      if (!status) {
        return status;
      }
    }
    const bool is_last = parked->last == flushed_to_ || parked->lines.empty();
    flushed_to_ = parked->last;
    if (is_last) {
      return {};
    }
  }
}

/// Appends both texts, syncs both files, then commits lengths and counts.
Status Journal::append_and_commit() {
  if (Status status = files_.append(ResultFile::output, output_text_); !status) {
    return status;
  }
  if (Status status = files_.append(ResultFile::errors, errors_text_); !status) {
    return status;
  }
  if (Status status = files_.sync(); !status) {
    return status;
  }
  job_.output_bytes = files_.size(ResultFile::output);
  job_.errors_bytes = files_.size(ResultFile::errors);
  if (Status status = store_->save_job(job_); !status) {
    return status;
  }
  point("before commit");
  if (Status status = store_->commit(); !status) {
    return status;
  }
  point("after commit");
  take_facts();
  return {};
}

Status Journal::set_state(const char* state) {
  if (Status status = files_.check(); !status) {
    return status;
  }
  if (Status status = store_->begin(); !status) {
    return status;
  }
  job_.state = state;
  if (Status status = store_->save_job(job_); !status) {
    return status;
  }
  point("before state commit");
  if (Status status = store_->commit(); !status) {
    return status;
  }
  point("after state commit");
  return {};
}

Status Journal::stop() {
  if (!failure_) {
    return failure_;
  }
  if (facts_.is_finished) {
    return {};
  }
  return poison(set_state("stopped"));
}

Status Journal::finish() {
  if (!failure_) {
    return failure_;
  }
  if (facts_.is_finished) {
    return {};
  }
  TROUPE_CHECK(facts_.done() == facts_.lines, "a finished job has a result for every line");
  if (Status status = flush_parked(); !status) {
    return poison(status);
  }
  if (Status status = set_state("finished"); !status) {
    return poison(status);
  }
  facts_.is_finished = true;
  return poison(files_.remove_empty_errors());
}

bool exists(const std::string& path) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0;
}

} // namespace

Result<std::unique_ptr<BatchJob>> open_journal(const BatchPaths& paths, const JobIdentity& identity,
                                               const JobOptions& options) {
  TROUPE_CHECK(paths.input != "-", "standard input has no journal");
  if (Status status = check_batch_paths(paths); !status) {
    return status.error();
  }
  Result<JobFiles> files = JobFiles::open(paths, options.at_write);
  if (!files) {
    return files.error();
  }
  if (is_same_file(paths.output, paths.errors)) { // By a link that pointed nowhere before.
    files->discard_made();
    return Error{ErrorCode::bad_argument, paths.errors + ": the errors would be the same file as "
                                                         "the output; give each its own path"};
  }
  const bool had_journal = exists(paths.journal);
  Result<std::unique_ptr<JournalStore>> store = JournalStore::open(paths.journal);
  if (!store) {
    files->discard_made();
    return store.error();
  }
  auto journal =
      std::make_unique<Journal>(paths, options, std::move(*files), std::move(*store), !had_journal);
  if (Status status = journal->start(identity); !status) {
    if (status.error().code == ErrorCode::busy) journal->disown_journal();
    journal->discard();
    return status.error();
  }
  return std::unique_ptr<BatchJob>(std::move(journal));
}

} // namespace troupe::app
