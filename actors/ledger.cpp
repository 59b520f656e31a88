#include "actors/ledger.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <vector>

namespace troupe::actors {

namespace {

constexpr std::int64_t kSegments = 8;          ///< A full ledger is so many segments.
constexpr std::size_t kBufferBytes = 64 << 10; ///< Written when this much has gathered.

std::filesystem::path segment_path(const std::string& directory, std::int64_t number) {
  return std::filesystem::path(directory) / fmt::format("decisions-{:08}.jsonl", number);
}

/// Numbers of the segments of a folder, ascending.
std::vector<std::int64_t> segment_numbers(const std::string& directory) {
  std::vector<std::int64_t> numbers;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(directory, code)) {
    const std::string name = entry.path().filename().string();
    std::int64_t number = 0;
    if (std::sscanf(name.c_str(), "decisions-%ld.jsonl", &number) == 1) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

} // namespace

struct Ledger::State {
  std::mutex mutex;
  std::string directory;
  std::int64_t segment_bytes_max = 0;
  std::int64_t segment = 0;
  std::int64_t segment_bytes = 0;
  std::FILE* file = nullptr;
  std::string buffer;
  std::uint64_t number = 0;
  std::int64_t buffered = 0;
  std::int64_t records = 0;
  std::int64_t lost = 0;

  bool open_segment(std::int64_t which) {
    if (file != nullptr) std::fclose(file);
    segment = which;
    segment_bytes = 0;
    file = std::fopen(segment_path(directory, which).c_str(), "ab");
    for (const std::int64_t old : segment_numbers(directory)) {
      if (old <= which - kSegments) {
        std::error_code code;
        std::filesystem::remove(segment_path(directory, old), code);
      }
    }
    return file != nullptr;
  }

  void write_out() {
    if (buffer.empty()) return;
    const bool room = segment_bytes + static_cast<std::int64_t>(buffer.size()) <= segment_bytes_max;
    if (file != nullptr && !room) open_segment(segment + 1);
    if (file == nullptr || std::fwrite(buffer.data(), 1, buffer.size(), file) != buffer.size() ||
        std::fflush(file) != 0) {
      if (lost == 0) spdlog::warn("{}: the ledger cannot be written; the job goes on", directory);
      lost += buffered;
    } else {
      records += buffered;
      segment_bytes += static_cast<std::int64_t>(buffer.size());
    }
    buffer.clear();
    buffered = 0;
  }
};

Ledger::Ledger(std::unique_ptr<State> state) : state_(std::move(state)) {}

Ledger::~Ledger() {
  flush();
  if (state_->file != nullptr) std::fclose(state_->file);
}

Result<std::shared_ptr<Ledger>> Ledger::open(const std::string& directory,
                                             std::int64_t size_max_bytes) {
  std::error_code code;
  std::filesystem::create_directories(directory, code);
  if (code) {
    return Error{ErrorCode::io_error,
                 fmt::format("{}: cannot make the ledger folder: {}", directory, code.message())};
  }
  auto state = std::make_unique<State>();
  state->directory = directory;
  state->segment_bytes_max = std::max<std::int64_t>(size_max_bytes / kSegments, 1);
  const auto numbers = segment_numbers(directory);
  if (!state->open_segment(numbers.empty() ? 1 : numbers.back() + 1)) {
    return Error{ErrorCode::io_error,
                 fmt::format("{}: cannot write into the ledger folder", directory)};
  }
  return std::make_shared<Ledger>(std::move(state));
}

void Ledger::append(const sched::StageRef&, sched::Record record, std::int64_t now_us) {
  const std::lock_guard lock(state_->mutex);
  state_->buffer += ledger_line(record, state_->number++, now_us);
  state_->buffer += '\n';
  ++state_->buffered;
  if (state_->buffer.size() >= kBufferBytes) state_->write_out();
}

void Ledger::append(const sched::StageRef&, sched::Observed, std::int64_t) {}

void Ledger::append(const sched::StageRef&, sched::Milestone, std::int64_t) {}

void Ledger::append(const sched::StageRef&, sched::Finish, std::int64_t) {}

void Ledger::append(const sched::StageRef&, sched::RankChange, std::int64_t) {}

void Ledger::append(sched::SetLive, std::int64_t) {}

void Ledger::append(sched::RequestNamed, std::int64_t) {}

void Ledger::flush() {
  const std::lock_guard lock(state_->mutex);
  state_->write_out();
}

std::int64_t Ledger::records() const {
  const std::lock_guard lock(state_->mutex);
  return state_->records + state_->buffered;
}

std::int64_t Ledger::lost() const {
  const std::lock_guard lock(state_->mutex);
  return state_->lost;
}

std::string ledger_line(const sched::Record& record, std::uint64_t number, std::int64_t now_us) {
  std::string line = fmt::format(
      R"({{"n":{},"now_us":{},"kind":"{}","policy":"{}","epoch":{},"request":{},"attempt":{},)"
      R"("rank":{},"reason":"{}","value":{},"view_age_us":{})",
      number, now_us, record.kind, record.policy, raw(record.epoch), raw(record.ref.request),
      raw(record.ref.attempt), raw(record.rank.rank), sched::reason_name(record.reason),
      record.value, record.view_age_us);
  if (!record.candidates.empty()) {
    line += R"(,"candidates":[)";
    for (std::size_t i = 0; i < record.candidates.size(); ++i) {
      const sched::Candidate& c = record.candidates[i];
      line += fmt::format(R"({}{{"rank":{},"score":{},"feasible":{}}})", i == 0 ? "" : ",",
                          raw(c.rank), c.score, c.feasible);
    }
    line += ']';
  }
  return line + '}';
}

} // namespace troupe::actors
