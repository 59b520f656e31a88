// A batch job on standard input: the same door as the journal's, without a second try.
#include "actors/app/disk_error.hpp"
#include "actors/app/job_files.hpp"
#include "actors/app/journal.hpp"

#include <cerrno>
#include <fcntl.h>
#include <map>
#include <set>
#include <unistd.h>

namespace troupe::app {

namespace {

constexpr std::int64_t kWaitMs = 50;

/// Keeps texts that must wait in a file without a name: it goes with the process.
class ParkingFile {
public:
  ~ParkingFile() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }

  Status open(const std::string& output) {
    const std::string folder = folder_of(output);
    fd_ = ::open(folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    if (fd_ < 0) { // Not every file system has nameless files.
      std::string name = folder + "/.troupe-waiting-XXXXXX";
      fd_ = ::mkostemp(name.data(), O_CLOEXEC);
      if (fd_ >= 0) {
        ::unlink(name.c_str());
      }
    }
    if (fd_ >= 0) {
      return {};
    }
    return {ErrorCode::io_error,
            folder + ": cannot make a file for waiting results: " + disk_error(errno)};
  }

  Status put(std::int64_t index, const LineResult& result) {
    std::string_view bytes = result.text;
    Place place{end_, static_cast<std::int64_t>(bytes.size()), result.is_success};
    while (!bytes.empty()) {
      const ssize_t got = ::pwrite(fd_, bytes.data(), bytes.size(), end_);
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got <= 0) {
        return failure("write");
      }
      end_ += got;
      bytes.remove_prefix(static_cast<std::size_t>(got));
    }
    places_.emplace(index, place);
    return {};
  }

  bool has(std::int64_t index) const { return places_.contains(index); }

  Result<LineResult> take(std::int64_t index) {
    const Place place = places_.at(index);
    LineResult result{index, place.is_success, {}, 0, 0};
    result.text.resize(static_cast<std::size_t>(place.length));
    std::size_t done = 0;
    while (done < result.text.size()) {
      const ssize_t got = ::pread(fd_, result.text.data() + done, result.text.size() - done,
                                  place.offset + static_cast<std::int64_t>(done));
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got <= 0) {
        return failure("read").error();
      }
      done += static_cast<std::size_t>(got);
    }
    places_.erase(index);
    if (places_.empty() && ::ftruncate(fd_, 0) == 0) {
      end_ = 0;
    }
    return result;
  }

private:
  struct Place {
    std::int64_t offset = 0;
    std::int64_t length = 0;
    bool is_success = false;
  };

  static Status failure(const char* action) {
    return {ErrorCode::io_error,
            std::string("cannot ") + action + " waiting results: " + disk_error(errno)};
  }

  int fd_ = -1;
  std::int64_t end_ = 0;
  std::map<std::int64_t, Place> places_;
};

class StreamJob final : public BatchJob {
public:
  StreamJob(const JobOptions& options, JobFiles files, LineReader input)
      : options_(options), files_(std::move(files)), input_(std::move(input)) {}

  Status start(const BatchPaths& paths, const JobIdentity& identity) {
    std::string key = "standard input\n" + std::to_string(options_.now_us);
    for (const auto& [name, value] : identity.fields) {
      key += '\n' + name + '=' + value;
    }
    facts_.job_id = "batch_" + hex(digest_of(key)).substr(0, 24);
    facts_.start_us = options_.now_us;
    for (const ResultFile file : {ResultFile::output, ResultFile::errors}) {
      if (files_.size(file) == 0) {
        continue;
      }
      if (!options_.restart) {
        return {ErrorCode::mismatch,
                files_.path(file) + ": it is not empty, and a job on standard input cannot go on; "
                                    "remove it, or empty it with --restart"};
      }
      if (Status status = files_.cut(file, 0); !status) {
        return status;
      }
    }
    return options_.order == OutputOrder::input ? parking_.open(paths.output) : Status{};
  }
  void discard() noexcept override { files_.discard_made(); }

  const JobFacts& facts() const noexcept override { return facts_; }

  Result<NextLines> next_lines(std::int64_t count_max) override {
    if (!failure_) {
      return failure_.error();
    }
    NextLines next;
    InputLine line;
    while (!at_end_ && static_cast<std::int64_t>(next.lines.size()) < count_max) {
      // Lines that are there already do not wait for more.
      const Result<ReadState> state = input_.next(line, next.lines.empty() ? kWaitMs : 0);
      if (!state) {
        return poison(state.status()).error();
      }
      if (*state == ReadState::waiting) {
        return next;
      }
      at_end_ = *state == ReadState::end;
      if (!at_end_) {
        next.lines.push_back(take(line));
      }
    }
    next.at_end = at_end_;
    if (at_end_) {
      facts_.lines = read_;
    }
    return next;
  }

  Status commit(std::span<const LineResult> results) override {
    if (!failure_) {
      return failure_;
    }
    output_text_.clear();
    errors_text_.clear();
    for (const LineResult& result : results) {
      if (result.index < 1 || result.index > read_ || open_.erase(result.index) == 0) {
        continue;
      }
      (result.is_success ? facts_.succeeded : facts_.failed) += 1;
      facts_.prompt_tokens += result.prompt_tokens;
      facts_.completion_tokens += result.completion_tokens;
      if (options_.order == OutputOrder::completion) {
        add(result);
      } else if (Status status = parking_.put(result.index, result); !status) {
        return poison(status);
      }
    }
    while (parking_.has(written_ + 1)) {
      const Result<LineResult> parked = parking_.take(++written_);
      if (!parked) {
        return poison(parked.status());
      }
      add(*parked);
    }
    return poison(write());
  }

  Status stop() override { return failure_; }

  Status finish() override {
    if (!failure_) {
      return failure_;
    }
    TROUPE_CHECK(facts_.done() == read_, "a finished job has a result for every line");
    if (Status status = files_.check(); !status) {
      return poison(status);
    }
    facts_.is_finished = true;
    return poison(files_.remove_empty_errors());
  }

private:
  PendingLine take(const InputLine& line) {
    PendingLine pending{++read_, line.number, {}};
    open_.insert(read_);
    if (line.is_too_long) {
      pending.outcome.error = line_too_long_error(line.length, options_.line_bytes_max);
      return pending;
    }
    pending.outcome = parse_batch_line(line.text);
    const std::string& custom_id = pending.outcome.line.custom_id;
    if (custom_id.empty()) {
      return pending;
    }
    const std::int64_t first = duplicates_.first_line_of(custom_id, line.number);
    if (first != 0) {
      pending.outcome.error = duplicate_custom_id_error(custom_id, line.number, first);
    }
    return pending;
  }

  void add(const LineResult& result) {
    (result.is_success ? output_text_ : errors_text_).append(result.text).append(1, '\n');
  }

  Status write() {
    Status status = files_.append(ResultFile::output, output_text_);
    if (status) {
      status = files_.append(ResultFile::errors, errors_text_);
    }
    return status ? files_.sync() : status;
  }

  Status poison(Status status) {
    if (status) {
      return status;
    }
    failure_ = {status.error().code, status.error().message +
                                         ". The job stopped; a job on standard input cannot go on, "
                                         "use a file as input to be able to"};
    return failure_;
  }

  JobOptions options_;
  JobFiles files_;
  LineReader input_;
  ParkingFile parking_;
  DuplicateFinder duplicates_;
  JobFacts facts_;
  std::set<std::int64_t> open_; ///< Lines that were read and have no result.
  std::int64_t read_ = 0;
  std::int64_t written_ = 0; ///< With input order: all lines up to this one are in the files.
  bool at_end_ = false;
  std::string output_text_;
  std::string errors_text_;
  Status failure_;
};

} // namespace

Result<std::unique_ptr<BatchJob>>
open_stream_job(const BatchPaths& paths, const JobIdentity& identity, const JobOptions& options) {
  TROUPE_CHECK(paths.input == "-", "a stream job reads standard input");
  if (Status status = check_batch_paths(paths); !status) {
    return status.error();
  }
  Result<LineReader> input = LineReader::open("-", options.line_bytes_max);
  if (!input) {
    return input.error();
  }
  Result<JobFiles> files = JobFiles::open(paths, options.at_write);
  if (!files) {
    return files.error();
  }
  auto job = std::make_unique<StreamJob>(options, std::move(*files), std::move(*input));
  if (Status status = job->start(paths, identity); !status) {
    job->discard();
    return status.error();
  }
  return std::unique_ptr<BatchJob>(std::move(job));
}

} // namespace troupe::app
