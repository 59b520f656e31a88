#include "actors/shadow_lane.hpp"

#include "schedulers/core/check.hpp"
#include "schedulers/model/same_choice.hpp"

#include <spdlog/spdlog.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <variant>

namespace troupe::actors {

namespace {

constexpr std::chrono::milliseconds kLastWait{2000};

/// Who is shadowed: a kind on a stage.
using Stream = std::pair<std::string, std::string>;

/// In place of a question that was not kept.
struct TooLarge {};

/// Something for the lane, in order.
struct Item {
  PolicyEpoch epoch{};
  Stream stream;
  bool after_drop = false; ///< Something of this stream found the queue full.
  std::variant<sched::PolicySet, sched::Asked, sched::QueueObservation, TooLarge> what;
};

} // namespace

/// What the lane's thread and the others share; outlives a thread that is left alone.
struct ShadowLane::Shared {
  std::shared_ptr<const sched::PolicyRegistry> registry;
  std::shared_ptr<ManagerFacts> facts;
  std::size_t queue_max = 0;
  std::atomic<bool> active{false}; ///< Some kind is shadowed: offers are worth looking at.

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Item> queue;
  std::set<std::string> kinds;
  PolicyEpoch epoch{};
  std::set<Stream> torn; ///< Something of them was dropped since the last one that was taken.
  std::map<std::string, std::int64_t> dropped; ///< By kind, of this set.
  bool running = false;
  bool busy = false;
  bool stopping = false;
  std::thread thread;

  /// Under the lock. A question that finds the queue full is dropped.
  void push(Item item) {
    if (queue.size() >= queue_max) {
      const bool question = !std::holds_alternative<sched::QueueObservation>(item.what);
      if (question) ++dropped[item.stream.second];
      torn.insert(std::move(item.stream));
      return;
    }
    item.after_drop = torn.erase(item.stream) != 0;
    queue.push_back(std::move(item));
  }
};

/// The shadows of one set; of the lane's thread.
class ShadowLane::Seats {
public:
  explicit Seats(const Shared& shared) : shared_(shared) {}

  void use(const sched::PolicySet& set) {
    set_ = set;
    seats_.clear();
    totals_.clear();
    missed_.clear();
    for (const auto& [kind, spec] : set_.shadow)
      tell(kind);
  }

  void take(const Item& item) {
    if (item.epoch != set_.epoch) return; // Asked under the set before.
    if (const auto* seen = std::get_if<sched::QueueObservation>(&item.what)) {
      observe(seat_of(item), *seen);
      return;
    }
    if (const auto* asked = std::get_if<sched::Asked>(&item.what)) {
      std::visit([&](const auto& one) { ask(seat_of(item), *one); }, *asked);
    } else {
      miss(item.stream.second);
    }
    tell(item.stream.second);
  }

  /// @param by_kind  how many found the queue full so far
  void dropped(const std::map<std::string, std::int64_t>& by_kind) {
    for (const auto& [kind, count] : by_kind) {
      const std::int64_t all = count + missed_[kind];
      if (totals_[kind].dropped == all) continue;
      totals_[kind].dropped = all;
      tell(kind);
    }
  }

private:
  struct Seat {
    std::string kind;
    std::unique_ptr<sched::Policy> policy; ///< Null when it cannot be built.
    bool imports = false;                  ///< The live policy has its name, so its state fits.
    bool begun = false;
  };

  std::string name_of(const std::string& kind, const sched::PolicySpec& spec) const {
    return spec.policy.empty() ? shared_.registry->default_name(kind) : spec.policy;
  }

  Seat& seat_of(const Item& item) {
    const auto found = seats_.find(item.stream);
    Seat& seat = found == seats_.end() ? build(item.stream) : found->second;
    if (item.after_drop && seat.imports) seat.begun = false;
    return seat;
  }

  Seat& build(const Stream& stream) {
    Seat& seat = seats_[stream];
    seat.kind = stream.second;
    const sched::PolicySpec& spec = set_.shadow.at(seat.kind);
    const auto live = set_.kinds.find(seat.kind);
    seat.imports =
        name_of(seat.kind, spec) ==
        name_of(seat.kind, live == set_.kinds.end() ? sched::PolicySpec{} : live->second);
    seat.begun = !seat.imports;
    auto built = shared_.registry->build(seat.kind, spec, set_.libraries);
    if (built.ok()) {
      seat.policy = std::move(*built);
    } else {
      spdlog::warn("shadow.{} of {}: {}; its questions count as failed", seat.kind, stream.first,
                   built.error().message);
    }
    return seat;
  }

  template <class Question>
  void ask(Seat& seat, const sched::AskedOf<Question>& asked) {
    ShadowTotals& totals = totals_[seat.kind];
    if (!seat.policy) {
      ++totals.failed;
      return;
    }
    if (asked.gap && seat.imports) seat.begun = false;
    if (!seat.begun && !asked.has_state) {
      return miss(seat.kind); // Its state is not known any more.
    }
    if (!seat.begun) seat.policy->import_state(asked.state);
    seat.begun = true;
    auto* policy = dynamic_cast<typename Question::Kind*>(seat.policy.get());
    TROUPE_CHECK(policy != nullptr, "a policy is registered under its own kind");
    const auto answer = sched::ask(*policy, asked.question);
    if (!asked.question.check(answer).ok()) {
      ++totals.failed;
      return;
    }
    ++totals.decisions;
    if (!sched::same_choice(answer, asked.answer)) ++totals.disagreed;
  }

  void miss(const std::string& kind) {
    ++missed_[kind];
    ++totals_[kind].dropped;
  }

  static void observe(Seat& seat, const sched::QueueObservation& seen) {
    auto* policy = dynamic_cast<sched::QueuePolicy*>(seat.policy.get());
    if (policy != nullptr && seat.begun) sched::observe(*policy, seen);
  }

  void tell(const std::string& kind) {
    ShadowTotals& totals = totals_[kind];
    if (totals.policy.empty()) totals.policy = name_of(kind, set_.shadow.at(kind));
    shared_.facts->publish_shadow(set_.epoch, kind, totals);
  }

  const Shared& shared_;
  sched::PolicySet set_;
  std::map<Stream, Seat> seats_;
  std::map<std::string, ShadowTotals> totals_;
  /// By kind: came after a gap, without a state, or was too large to come at all.
  std::map<std::string, std::int64_t> missed_;
};

ShadowLane::ShadowLane(std::shared_ptr<const sched::PolicyRegistry> registry,
                       std::shared_ptr<ManagerFacts> facts, std::size_t queue_max)
    : shared_(std::make_shared<Shared>()) {
  shared_->registry = std::move(registry);
  shared_->facts = std::move(facts);
  shared_->queue_max = queue_max;
}

ShadowLane::~ShadowLane() { stop(kLastWait); }

void ShadowLane::use(const sched::PolicySet& set) {
  Shared& shared = *shared_;
  const std::lock_guard lock(shared.mutex);
  if (shared.stopping) return;
  shared.kinds.clear();
  for (const auto& [kind, spec] : set.shadow)
    shared.kinds.insert(kind);
  shared.epoch = set.epoch;
  shared.torn.clear();
  shared.dropped.clear();
  shared.active = !shared.kinds.empty();
  if (!shared.running && !shared.active) return;
  // What waits was asked under the set before.
  shared.queue.clear();
  shared.queue.push_back({set.epoch, {}, false, set});
  if (!std::exchange(shared.running, true)) {
    shared.thread = std::thread([shared = shared_] { work(shared); });
  }
  shared.changed.notify_all();
}

void ShadowLane::offer(const std::string& stage, const sched::Effects& effects) {
  Shared& shared = *shared_;
  if (!shared.active) return;
  const std::lock_guard lock(shared.mutex);
  const std::size_t before = shared.queue.size();
  for (const sched::Effect& effect : effects.list()) {
    if (const auto* record = std::get_if<sched::Record>(&effect)) {
      if (record->epoch != shared.epoch || shared.kinds.count(record->kind) == 0) continue;
      if (record->too_large) shared.push({record->epoch, {stage, record->kind}, false, TooLarge{}});
      if (!record->asked) continue;
      const bool canary =
          std::visit([](const auto& asked) { return asked->canary; }, *record->asked);
      if (!canary) shared.push({record->epoch, {stage, record->kind}, false, *record->asked});
    } else if (const auto* seen = std::get_if<sched::Observed>(&effect)) {
      static const std::string kQueue(sched::QueueQuestion::kKind);
      if (seen->epoch != shared.epoch || shared.kinds.count(kQueue) == 0) continue;
      shared.push({seen->epoch, {stage, kQueue}, false, seen->observation});
    }
  }
  if (shared.queue.size() != before) shared.changed.notify_all();
}

void ShadowLane::work(const std::shared_ptr<Shared>& shared) {
  Seats seats(*shared);
  std::unique_lock lock(shared->mutex);
  while (!shared->stopping) {
    if (shared->queue.empty()) {
      shared->busy = false;
      shared->changed.notify_all();
      shared->changed.wait(lock);
      continue;
    }
    const Item item = std::move(shared->queue.front());
    shared->queue.pop_front();
    const std::map<std::string, std::int64_t> dropped = shared->dropped;
    shared->busy = true;
    lock.unlock();
    if (const auto* set = std::get_if<sched::PolicySet>(&item.what)) {
      seats.use(*set);
    } else {
      seats.take(item);
      seats.dropped(dropped);
    }
    lock.lock();
  }
  shared->running = false;
  shared->changed.notify_all();
}

bool ShadowLane::drain(std::chrono::milliseconds at_most) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(lock, at_most, [this] {
    return !shared_->running || (shared_->queue.empty() && !shared_->busy);
  });
}

bool ShadowLane::stop(std::chrono::milliseconds at_most) {
  Shared& shared = *shared_;
  std::unique_lock lock(shared.mutex);
  shared.active = false;
  shared.stopping = true;
  if (!shared.thread.joinable()) return !shared.running;
  shared.changed.notify_all();
  const bool ended = shared.changed.wait_for(lock, at_most, [&] { return !shared.running; });
  std::thread thread = std::move(shared.thread);
  lock.unlock();
  if (ended) {
    thread.join();
  } else {
    thread.detach();
  }
  return ended;
}

} // namespace troupe::actors
