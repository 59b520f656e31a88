#include "actors/ledger.hpp"

#include "actors/ledger_writer.hpp"
#include "schedulers/stage/fields.hpp"

#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace troupe::actors {

namespace {

constexpr std::chrono::seconds kFlushWait{10};
constexpr std::size_t kWakeBytes = 4 << 20; ///< So much is written without waiting any longer.

/// Adds up what the texts and lists below a value hold.
class HeapBytes {
public:
  template <class Field>
  HeapBytes& operator()(const char* /*name*/, const Field& field) {
    walk(field);
    return *this;
  }

  template <class T>
  void walk(const T& value) {
    if constexpr (!std::is_arithmetic_v<T> && !std::is_enum_v<T>) each_field(value, *this);
  }
  void walk(const std::string& text) { bytes += text.size(); }
  void walk(const sched::PolicySet& set) { bytes += sizeof(set) + 2 * set.text.size(); }
  template <class T>
  void walk(const std::vector<T>& list) {
    bytes += list.size() * sizeof(T);
    if constexpr (!std::is_arithmetic_v<T>) {
      for (const T& value : list)
        walk(value);
    }
  }

  std::size_t bytes = 0;
};

std::size_t bytes_of(const sched::StageTook& took) {
  HeapBytes heap;
  heap.bytes = took.effects.size() * sizeof(took.effects[0]);
  if (!took.event) return heap.bytes;
  std::visit([&](const auto& event) { heap.walk(event); }, *took.event);
  return heap.bytes + sizeof(*took.event);
}

/// About what an entry holds in memory besides itself.
std::size_t bytes_of(const sched::LedgerEntry& entry) {
  if (const auto* took = std::get_if<sched::StageTook>(&entry.what)) return bytes_of(*took);
  const auto* record = std::get_if<sched::Record>(&entry.what);
  if (record == nullptr) return 0;
  std::size_t bytes = record->candidates.size() * sizeof(sched::Candidate);
  if (!record->asked) return bytes;
  std::visit(
      [&bytes](const auto& one) {
        const auto& q = one->question;
        bytes += sizeof(*one) + one->state.size();
        if constexpr (requires { q.waiting; }) bytes += q.waiting.size() * sizeof(q.waiting[0]);
        if constexpr (requires { q.requests; }) bytes += q.requests.size() * sizeof(q.requests[0]);
        if constexpr (requires { q.ranks; }) bytes += q.ranks.size() * sizeof(q.ranks[0]);
        if constexpr (requires { q.decodes; }) bytes += q.decodes.size() * sizeof(q.decodes[0]);
        if constexpr (requires { q.bytes(); }) bytes += 2 * q.bytes(); // And its answer.
      },
      *record->asked);
  return bytes;
}

std::int64_t cpu_ns_of_this_thread() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

} // namespace

struct Ledger::State {
  State(LedgerWriter opened, const LedgerLimits& given)
      : limits(given), writer(std::move(opened)), next_number(writer.next_number()) {}

  const LedgerLimits limits;
  LedgerWriter writer; ///< Of the thread.

  mutable std::mutex mutex; ///< Of all below.
  std::condition_variable wake;
  std::condition_variable written;
  std::vector<sched::LedgerEntry> queue;
  std::size_t queue_bytes = 0;
  std::uint64_t next_number;
  std::uint64_t taken = 0; ///< Into the queue.
  std::uint64_t done = 0;  ///< Out of it, and written or lost.
  std::int64_t decisions = 0;
  std::int64_t dropped = 0;
  std::int64_t unwritten = 0;
  std::string last_set; ///< As encoded.
  bool hurry = false;
  bool stop = false;

  std::atomic<std::int64_t> append_ns{0};
  std::atomic<std::int64_t> thread_ns{0};
  std::thread thread;

  void append(sched::LedgerEntry entry) {
    const auto begin = std::chrono::steady_clock::now();
    take(std::move(entry));
    append_ns += std::chrono::duration_cast<std::chrono::nanoseconds>(
                     std::chrono::steady_clock::now() - begin)
                     .count();
  }

  bool is_due() const { return queue.size() >= limits.wake_entries || queue_bytes >= kWakeBytes; }

  void take(sched::LedgerEntry entry) {
    const std::size_t bytes = bytes_of(entry) + sizeof(entry);
    bool first_drop = false;
    {
      const std::lock_guard lock(mutex);
      entry.number = next_number++;
      if (queue.size() >= limits.queue_entries_max ||
          queue_bytes + bytes > limits.queue_bytes_max) {
        first_drop = dropped++ == 0;
      } else {
        if (std::holds_alternative<sched::Record>(entry.what)) ++decisions;
        queue_bytes += bytes;
        ++taken;
        queue.push_back(std::move(entry));
        if (is_due() && !std::exchange(hurry, true)) wake.notify_one();
      }
    }
    if (first_drop) spdlog::warn("the ledger is written too slowly: entries are lost and counted");
  }

  void run() {
    std::vector<sched::LedgerEntry> batch;
    std::unique_lock lock(mutex);
    while (!stop || !queue.empty()) {
      wake.wait_for(lock, std::chrono::microseconds{limits.wait_us},
                    [&] { return stop || hurry || is_due(); });
      hurry = false;
      batch.swap(queue);
      queue_bytes = 0;
      lock.unlock();
      for (const sched::LedgerEntry& entry : batch)
        writer.add(entry);
      writer.write_out();
      thread_ns = cpu_ns_of_this_thread();
      const std::size_t count = batch.size();
      batch.clear();
      lock.lock();
      done += count;
      unwritten = writer.lost();
      written.notify_all();
    }
  }
};

Ledger::Ledger(std::unique_ptr<State> state) : state_(std::move(state)) {
  state_->thread = std::thread([raw = state_.get()] { raw->run(); });
}

Ledger::~Ledger() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->wake.notify_one();
  }
  state_->thread.join();
}

Result<std::shared_ptr<Ledger>> Ledger::open(const std::string& directory,
                                             std::int64_t size_max_bytes,
                                             const LedgerLimits& limits) {
  auto writer = LedgerWriter::open(directory, size_max_bytes);
  if (!writer.ok()) return writer.error();
  return std::make_shared<Ledger>(std::make_unique<State>(std::move(*writer), limits));
}

void Ledger::append(const sched::StageRef& stage, sched::Record record, std::int64_t now_us) {
  state_->append({0, now_us, stage, std::move(record)});
}

void Ledger::append(const sched::StageRef& stage, sched::Observed observed, std::int64_t now_us) {
  state_->append({0, now_us, stage, std::move(observed)});
}

void Ledger::append(const sched::StageRef& stage, sched::Milestone milestone, std::int64_t now_us) {
  state_->append({0, now_us, stage, std::move(milestone)});
}

void Ledger::append(const sched::StageRef& stage, sched::Finish finish, std::int64_t now_us) {
  state_->append({0, now_us, stage, std::move(finish)});
}

void Ledger::append(const sched::StageRef& stage, sched::RankChange change, std::int64_t now_us) {
  state_->append({0, now_us, stage, std::move(change)});
}

void Ledger::append(const sched::StageRef& stage, sched::StageBegan began, std::int64_t now_us) {
  state_->append({0, now_us, stage, std::move(began)});
}

void Ledger::append(const sched::StageRef& stage, sched::StageTook took, std::int64_t now_us) {
  state_->append({0, now_us, stage, std::move(took)});
}

void Ledger::charge(std::int64_t ns) { state_->append_ns += ns; }

void Ledger::append(sched::SetLive live, std::int64_t now_us) {
  std::string bytes = encode(live);
  {
    const std::lock_guard lock(state_->mutex);
    if (bytes == state_->last_set) return;
    state_->last_set = std::move(bytes);
  }
  state_->append({0, now_us, {}, std::move(live)});
}

void Ledger::append(sched::RequestNamed named, std::int64_t now_us) {
  state_->append({0, now_us, {}, std::move(named)});
}

LedgerMark Ledger::mark() {
  const std::lock_guard lock(state_->mutex);
  state_->hurry = true;
  state_->wake.notify_one();
  return {state_->taken, state_->next_number};
}

bool Ledger::is_written(const LedgerMark& mark) const {
  const std::lock_guard lock(state_->mutex);
  return state_->done >= mark.taken;
}

void Ledger::flush() {
  const LedgerMark all = mark();
  std::unique_lock lock(state_->mutex);
  state_->written.wait_for(lock, kFlushWait, [&] { return state_->done >= all.taken; });
}

std::int64_t Ledger::records() const {
  const std::lock_guard lock(state_->mutex);
  return state_->decisions;
}

std::int64_t Ledger::cost_us() const { return (state_->append_ns + state_->thread_ns) / 1000; }

std::int64_t Ledger::lost() const {
  const std::lock_guard lock(state_->mutex);
  return state_->dropped + state_->unwritten;
}

} // namespace troupe::actors
