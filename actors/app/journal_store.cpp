#include "actors/app/journal_store.hpp"

#include "actors/app/disk_error.hpp"
#include "actors/app/journal_header.hpp"
#include "schedulers/core/printable.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sys/stat.h>

namespace troupe::app {

namespace {

constexpr const char* kSchema = R"sql(
DROP TABLE IF EXISTS job;
DROP TABLE IF EXISTS identity;
DROP TABLE IF EXISTS lines;
CREATE TABLE job(
  job_id TEXT NOT NULL, start_us INTEGER NOT NULL, state TEXT NOT NULL,
  lines INTEGER NOT NULL, output_bytes INTEGER NOT NULL, errors_bytes INTEGER NOT NULL,
  succeeded INTEGER NOT NULL, failed INTEGER NOT NULL,
  prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL);
CREATE TABLE identity(name TEXT NOT NULL, value TEXT NOT NULL, only_warns INTEGER NOT NULL);
CREATE TABLE lines(
  line INTEGER PRIMARY KEY, number INTEGER NOT NULL, offset INTEGER NOT NULL,
  length INTEGER NOT NULL, digest BLOB NOT NULL, custom_id TEXT, too_long INTEGER NOT NULL,
  duplicate_of INTEGER NOT NULL, state INTEGER NOT NULL, body TEXT);
PRAGMA application_id=1953656693;
PRAGMA user_version=1;
)sql";
static_assert(kJournalApplicationId == 1953656693 && kJournalVersion == 1, "as in the schema");

constexpr std::size_t kShownBytes = 200;

/// Rows that a job never has: without one job row, with lines that do not count from 1 to the
/// number of lines, or with values out of their ranges.
constexpr const char* kContradictions = R"sql(
SELECT (SELECT count(*) <> 1 OR sum(
            lines < 0 OR output_bytes < 0 OR errors_bytes < 0 OR succeeded < 0 OR failed < 0 OR
            prompt_tokens < 0 OR completion_tokens < 0 OR succeeded + failed > lines OR
            state NOT IN ('running', 'stopped', 'finished') OR
            lines <> (SELECT count(*) FROM lines) OR
            succeeded <> (SELECT count(*) FROM lines WHERE lines.state IN (1, 3)) OR
            failed <> (SELECT count(*) FROM lines WHERE lines.state IN (2, 4))) FROM job)
     + (SELECT coalesce(sum(
            number < line OR offset < 0 OR length < 0 OR length(digest) <> 16 OR
            state NOT BETWEEN 0 AND 4 OR too_long NOT IN (0, 1) OR duplicate_of < 0), 0)
          + coalesce(min(line) <> 1 OR max(line) <> count(*), 0) FROM lines)
)sql";

/// All columns of a journal.
constexpr const char* kReadJob =
    "SELECT job_id, start_us, state, lines, output_bytes, errors_bytes, succeeded, failed, "
    "prompt_tokens, completion_tokens FROM job";
constexpr const char* kReadIdentity = "SELECT name, value, only_warns FROM identity ORDER BY rowid";
constexpr const char* kReadLines =
    "SELECT line, number, offset, length, digest, custom_id, too_long, duplicate_of, state, body "
    "FROM lines";

constexpr const char* kInsertJob = "INSERT INTO job VALUES(?,?,?,?,?,?,?,?,?,?)";

/// A prepared statement. Parameters count from 1, columns from 0.
class Statement {
public:
  Statement(sqlite3* db, const char* sql) {
    code_ = sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(std::int64_t value) {
    sqlite3_bind_int64(statement_, ++bound_, value);
    return *this;
  }
  /// `text` must live until the statement has run.
  Statement& bind(std::string_view text) {
    sqlite3_bind_text64(statement_, ++bound_, text.data() == nullptr ? "" : text.data(),
                        text.size(), SQLITE_STATIC, SQLITE_UTF8);
    return *this;
  }
  Statement& bind_null() {
    sqlite3_bind_null(statement_, ++bound_);
    return *this;
  }
  Statement& bind(const Digest& digest) {
    const std::array<std::uint64_t, 2> words = {digest.high, digest.low};
    sqlite3_bind_blob(statement_, ++bound_, words.data(), sizeof words, SQLITE_TRANSIENT);
    return *this;
  }

  /// True while there is a row.
  bool step() {
    if (code_ != SQLITE_OK && code_ != SQLITE_ROW) {
      return false;
    }
    code_ = sqlite3_step(statement_);
    return code_ == SQLITE_ROW;
  }
  /// Runs to the end and makes ready for new values; false on failure.
  bool run() {
    while (step()) {
    }
    if (code_ != SQLITE_DONE) {
      return false;
    }
    sqlite3_reset(statement_);
    code_ = SQLITE_OK;
    bound_ = 0;
    return true;
  }
  bool failed() const noexcept {
    return code_ != SQLITE_OK && code_ != SQLITE_ROW && code_ != SQLITE_DONE;
  }

  std::int64_t integer(int column) { return sqlite3_column_int64(statement_, column); }
  bool is_null(int column) { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  std::string text(int column) {
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
    const int count = sqlite3_column_bytes(statement_, column);
    return bytes == nullptr ? std::string() : std::string(bytes, static_cast<std::size_t>(count));
  }
  Digest digest(int column) {
    std::array<std::uint64_t, 2> words{};
    const std::string bytes = text(column);
    if (bytes.size() == sizeof words) {
      std::memcpy(words.data(), bytes.data(), sizeof words);
    }
    return {words[0], words[1]};
  }

private:
  sqlite3_stmt* statement_ = nullptr;
  int code_ = SQLITE_OK;
  int bound_ = 0;
};

} // namespace

struct JournalStore::State {
  std::string path;
  sqlite3* db = nullptr;
  std::unique_ptr<Statement> insert_line;
  std::unique_ptr<Statement> leave;
  struct stat place {}; ///< Of the open file, as long as the last transaction left it.

  ~State() {
    insert_line.reset();
    leave.reset();
    sqlite3_close_v2(db);
  }

  Error failure(const char* action) const {
    const int code = sqlite3_errcode(db);
    const std::string text = sqlite3_errmsg(db);
    if (code == SQLITE_BUSY) {
      return {ErrorCode::busy,
              path + ": another process is working on this job; wait for it or stop it first"};
    }
    if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT) {
      return damaged(text);
    }
    return {ErrorCode::io_error,
            path + ": cannot " + action + " the journal: " + text + cause(code)};
  }

  /// What the system said, where SQLite tells, and what to do.
  std::string cause(int code) const {
    const int system = code == SQLITE_FULL ? ENOSPC : sqlite3_system_errno(db);
    if (code == SQLITE_IOERR && system == 0) {
      return " (look after room, quota, the limit of file sizes (ulimit -f) and the disk)";
    }
    const bool is_told = code == SQLITE_FULL || code == SQLITE_IOERR || code == SQLITE_CANTOPEN;
    return is_told && system != 0 ? " (" + disk_error(system) + ")" : std::string();
  }

  /// `what` may be several lines of the library.
  Error damaged(std::string what) const {
    std::replace(what.begin(), what.end(), '\n', ' ');
    return damaged_journal(path, printable(what, kShownBytes));
  }

  /// Every page can be read, and the rows tell one story.
  Status check_content() const {
    Statement pages(db, "PRAGMA quick_check(1)");
    if (!pages.step()) return failure("check");
    if (const std::string found = pages.text(0); found != "ok") return damaged(found);
    Statement rows(db, kContradictions);
    if (!rows.step()) {
      // A table or column is not there: SQLite sees nothing wrong with such a file.
      return sqlite3_errcode(db) == SQLITE_ERROR ? damaged(sqlite3_errmsg(db)) : failure("check");
    }
    for (const char* sql : {kReadJob, kReadIdentity, kReadLines, kInsertJob}) {
      const Statement columns(db, sql);
      if (columns.failed()) return damaged(sqlite3_errmsg(db));
    }
    if (rows.integer(0) == 0) return {};
    return damaged(std::to_string(rows.integer(0)) + " rows contradict the others");
  }

  Status changed(const std::string& what) const {
    return {ErrorCode::mismatch, path + ": the journal " + what +
                                     " while the job runs; put it back and give the same command, "
                                     "or begin anew with --restart"};
  }

  Status take_place() {
    return ::stat(path.c_str(), &place) == 0 ? Status{} : changed("was removed or moved away");
  }

  /// SQLite goes on writing into a file that has lost its name; then nobody would ever read it.
  ///
  /// @param may_grow  a long transaction writes pages before its end
  Status check_place(bool may_grow) const {
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) return changed("was removed or moved away");
    if (found.st_dev != place.st_dev || found.st_ino != place.st_ino) {
      return changed("was replaced by another file");
    }
    if (found.st_size == place.st_size || (may_grow && found.st_size > place.st_size)) return {};
    return changed("was changed by somebody: it has " + std::to_string(found.st_size) +
                   " bytes, the job wrote " + std::to_string(place.st_size));
  }

  Status execute(const char* sql) const {
    if (sqlite3_exec(db, sql, nullptr, nullptr, nullptr) == SQLITE_OK) {
      return {};
    }
    return failure("write");
  }

  Result<std::int64_t> number(const char* sql) const {
    Statement query(db, sql);
    if (!query.step()) {
      return failure("read");
    }
    return query.integer(0);
  }
};

JournalStore::JournalStore(std::unique_ptr<State> state) : state_(std::move(state)) {}
JournalStore::~JournalStore() = default;

Result<std::unique_ptr<JournalStore>> JournalStore::open(const std::string& path) {
  if (Status status = check_journal_header(path); !status) {
    return status.error();
  }
  auto state = std::make_unique<State>();
  state->path = path;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  // Absolute, so that a path that begins with "file:" is not taken for a URI.
  const std::string name = std::filesystem::absolute(path).string();
  if (sqlite3_open_v2(name.c_str(), &state->db, flags, nullptr) != SQLITE_OK) {
    return state->failure("open");
  }
  for (const char* sql :
       {"PRAGMA locking_mode=EXCLUSIVE", "PRAGMA journal_mode=DELETE", "PRAGMA synchronous=FULL",
        "PRAGMA cache_size=-8192", "PRAGMA temp_store=MEMORY", "BEGIN EXCLUSIVE"}) {
    if (Status status = state->execute(sql); !status) {
      return status.error();
    }
  }
  if (Status status = state->take_place(); !status) {
    return status.error();
  }
  return std::unique_ptr<JournalStore>(new JournalStore(std::move(state)));
}

Status JournalStore::begin() {
  const Status status = state_->check_place(false);
  return status ? state_->execute("BEGIN IMMEDIATE") : status;
}

Status JournalStore::commit() {
  Status status = state_->check_place(true);
  if (status) {
    status = state_->execute("COMMIT");
  }
  return status ? state_->take_place() : status;
}

void JournalStore::rollback() noexcept {
  // Fails when SQLite rolled back by itself; the state is the same then.
  sqlite3_exec(state_->db, "ROLLBACK", nullptr, nullptr, nullptr);
}

Result<bool> JournalStore::has_job() {
  const Result<std::int64_t> version = state_->number("PRAGMA user_version");
  if (!version) {
    return version.error();
  }
  const Result<std::int64_t> owner = state_->number("PRAGMA application_id");
  if (!owner) {
    return owner.error();
  }
  const Result<std::int64_t> tables = state_->number("SELECT count(*) FROM sqlite_master");
  if (!tables) {
    return tables.error();
  }
  if (*version == 0 && *tables == 0) {
    return false;
  }
  if (*owner != kJournalApplicationId) {
    return foreign_journal(state_->path);
  }
  if (*version > kJournalVersion || *version < 0) {
    return newer_journal(state_->path, *version);
  }
  if (*version != kJournalVersion) {
    return false;
  }
  if (Status status = state_->check_content(); !status) {
    return status.error();
  }
  return true;
}

Status JournalStore::create_tables() {
  state_->insert_line.reset();
  state_->leave.reset();
  return state_->execute(kSchema);
}

Status JournalStore::add_line(const StoredLine& line) {
  if (!state_->insert_line) {
    state_->insert_line =
        std::make_unique<Statement>(state_->db, "INSERT INTO lines VALUES(?,?,?,?,?,?,?,?,0,NULL)");
  }
  Statement& insert = *state_->insert_line;
  insert.bind(line.index).bind(line.number).bind(line.offset).bind(line.length).bind(line.digest);
  if (line.custom_id) {
    insert.bind(std::string_view(*line.custom_id));
  } else {
    insert.bind_null();
  }
  insert.bind(std::int64_t{line.is_too_long}).bind(line.duplicate_of);
  return insert.run() ? Status{} : Status{state_->failure("write")};
}

Status JournalStore::save_job(const StoredJob& job) {
  if (Status status = state_->execute("DELETE FROM job"); !status) {
    return status;
  }
  Statement insert(state_->db, kInsertJob);
  insert.bind(std::string_view(job.job_id)).bind(job.start_us).bind(std::string_view(job.state));
  insert.bind(job.lines).bind(job.output_bytes).bind(job.errors_bytes);
  insert.bind(job.succeeded).bind(job.failed);
  insert.bind(job.prompt_tokens).bind(job.completion_tokens);
  return insert.run() ? Status{} : Status{state_->failure("write")};
}

Result<StoredJob> JournalStore::job() {
  Statement query(state_->db, kReadJob);
  if (!query.step()) {
    if (query.failed()) {
      return state_->failure("read");
    }
    return Error{ErrorCode::mismatch, state_->path + ": the journal has no job; move it away, or "
                                                     "begin anew with --restart"};
  }
  StoredJob job;
  job.job_id = query.text(0);
  job.start_us = query.integer(1);
  job.state = query.text(2);
  job.lines = query.integer(3);
  job.output_bytes = query.integer(4);
  job.errors_bytes = query.integer(5);
  job.succeeded = query.integer(6);
  job.failed = query.integer(7);
  job.prompt_tokens = query.integer(8);
  job.completion_tokens = query.integer(9);
  return job;
}

Status JournalStore::add_identity(const StoredIdentity& entry) {
  Statement insert(state_->db, "INSERT INTO identity VALUES(?,?,?)");
  insert.bind(std::string_view(entry.name)).bind(std::string_view(entry.value));
  insert.bind(std::int64_t{entry.only_warns});
  return insert.run() ? Status{} : Status{state_->failure("write")};
}

Result<std::vector<StoredIdentity>> JournalStore::identity() {
  Statement query(state_->db, kReadIdentity);
  std::vector<StoredIdentity> entries;
  while (query.step()) {
    entries.push_back({query.text(0), query.text(1), query.integer(2) != 0});
  }
  if (query.failed()) {
    return state_->failure("read");
  }
  return entries;
}

Result<std::vector<StoredLine>>
JournalStore::pending_after(std::int64_t index, std::int64_t count_max, std::int64_t bytes_max) {
  Statement query(state_->db,
                  "SELECT line, number, offset, length, digest, custom_id, too_long, duplicate_of "
                  "FROM lines WHERE line > ? AND state = 0 ORDER BY line LIMIT ?");
  query.bind(index).bind(count_max);
  std::vector<StoredLine> lines;
  std::int64_t bytes = 0;
  while (query.step()) {
    StoredLine line;
    line.index = query.integer(0);
    line.number = query.integer(1);
    line.offset = query.integer(2);
    line.length = query.integer(3);
    line.digest = query.digest(4);
    if (!query.is_null(5)) {
      line.custom_id = query.text(5);
    }
    line.is_too_long = query.integer(6) != 0;
    line.duplicate_of = query.integer(7);
    bytes += line.is_too_long ? 0 : line.length;
    if (bytes > bytes_max && !lines.empty()) {
      return lines;
    }
    lines.push_back(std::move(line));
  }
  if (query.failed()) {
    return state_->failure("read");
  }
  return lines;
}

Result<bool> JournalStore::leave_pending(std::int64_t index, LineState state,
                                         std::string_view text) {
  if (!state_->leave) {
    state_->leave = std::make_unique<Statement>(
        state_->db, "UPDATE lines SET state = ?, body = ? WHERE line = ? AND state = 0");
  }
  Statement& update = *state_->leave;
  update.bind(static_cast<std::int64_t>(state));
  if (state == LineState::parked_success || state == LineState::parked_failure) {
    update.bind(text);
  } else {
    update.bind_null();
  }
  update.bind(index);
  if (!update.run()) {
    return state_->failure("write");
  }
  return sqlite3_changes(state_->db) == 1;
}

Result<ParkedPrefix> JournalStore::parked_after(std::int64_t index, std::int64_t bytes_max) {
  Statement query(state_->db, "SELECT line, state, body FROM lines WHERE line > ? ORDER BY line");
  query.bind(index);
  ParkedPrefix prefix;
  prefix.last = index;
  std::int64_t bytes = 0;
  while (bytes < bytes_max && query.step()) {
    const auto state = static_cast<LineState>(query.integer(1));
    if (state == LineState::pending) {
      break;
    }
    prefix.last = query.integer(0);
    if (state == LineState::succeeded || state == LineState::failed) {
      continue;
    }
    prefix.lines.push_back({prefix.last, state == LineState::parked_success, query.text(2)});
    bytes += static_cast<std::int64_t>(prefix.lines.back().text.size());
  }
  if (query.failed()) {
    return state_->failure("read");
  }
  return prefix;
}

Status JournalStore::mark_written(std::int64_t first, std::int64_t last) {
  Statement update(state_->db, "UPDATE lines SET state = state + 2, body = NULL "
                               "WHERE line BETWEEN ? AND ? AND state IN (1, 2)");
  update.bind(first).bind(last);
  return update.run() ? Status{} : Status{state_->failure("write")};
}

} // namespace troupe::app
