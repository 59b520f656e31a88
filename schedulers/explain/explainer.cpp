#include "schedulers/explain/explainer.hpp"

#include "schedulers/explain/life.hpp"
#include "schedulers/explain/tell.hpp"

#include <algorithm>
#include <charconv>
#include <deque>
#include <map>
#include <set>
#include <utility>

namespace troupe::sched {
namespace {

/// Stages append on threads of their own: an entry may come so much later than its time says.
constexpr std::int64_t kStragglersUs = 1'000'000;
/// And so much earlier than one of a time before it.
constexpr std::int64_t kEarlyUs = 100'000;

/// The request that an entry alone is about; zero when there is none.
RequestId about(const LedgerEntry& entry) {
  if (const auto* milestone = std::get_if<Milestone>(&entry.what)) return milestone->ref.request;
  if (const auto* finish = std::get_if<Finish>(&entry.what)) return finish->request;
  const auto* record = std::get_if<Record>(&entry.what);
  return record != nullptr && record->kind == "admission" ? record->ref.request : RequestId{};
}

struct Followed {
  Life life;
  std::uint64_t run = 0;
  bool begun = false;  ///< Something but its name was seen.
  bool closed = false; ///< Nothing of its time can come any more.
};

} // namespace

struct Explainer::State {
  std::string who;
  RequestId number{};          ///< `who` as a number; zero when it is none.
  std::set<RequestId> by_name; ///< Requests whose custom_id is `who`.
  std::map<RequestId, Followed> followed;
  RankNames ranks;
  Population population;
  std::int64_t requests = 0;
  std::uint64_t run = 1;
  PolicyEpoch first_epoch{}; ///< Of the run.
  std::uint64_t next_number = 0;
  std::int64_t last_us = 0;       ///< Latest time of the run.
  std::deque<LedgerEntry> recent; ///< Of the last kEarlyUs.

  bool wanted(RequestId request) const {
    return request != RequestId{} && (request == number || by_name.count(request) != 0);
  }

  /// The followed request of this run, made when it is new.
  Followed& follow(RequestId request) {
    Followed& one = followed[request];
    if (one.run == run) return one;
    one = Followed{};
    one.run = run;
    one.life.request = request;
    return one;
  }

  /// A process begins with its first set: another clock, and no request is live.
  void take(const SetLive& live) {
    if (live.how != SwapCause::start || live.set.epoch == first_epoch) return;
    if (first_epoch != PolicyEpoch{}) ++run;
    first_epoch = live.set.epoch;
    population.clear();
    recent.clear();
    last_us = 0;
  }

  /// A request is named once in its life: named again, a later run took it up.
  void take(const RequestNamed& named) {
    ++requests;
    population.erase(named.request);
    followed.erase(named.request);
    if (named.custom_id == who) by_name.insert(named.request);
    if (wanted(named.request)) follow(named.request).life.custom_id = named.custom_id;
  }

  void take(const RankChange& change) { ranks[change.rank.rank] = change.name; }

  template <class Other>
  void take(const Other& /*what*/) {}

  void keep(const LedgerEntry& entry, std::int64_t lost) {
    if (is_event(entry)) return note_lost(lost);
    const RequestId request = about(entry);
    if (wanted(request)) {
      Followed& one = follow(request);
      if (!one.begun) begin(one, entry.at_us);
    }
    for (auto& [id, one] : followed) {
      if (one.run != run || !one.begun || one.closed) continue;
      collect(one, entry, lost);
    }
    recent.push_back(entry);
    while (recent.front().at_us + kEarlyUs < last_us)
      recent.pop_front();
  }

  /// Events of stages tell nothing that their decisions and milestones do not.
  static bool is_event(const LedgerEntry& entry) {
    return std::holds_alternative<StageTook>(entry.what) ||
           std::holds_alternative<StageBegan>(entry.what);
  }

  void note_lost(std::int64_t lost) {
    for (auto& [id, one] : followed) {
      const bool is_open = one.run == run && one.begun && !one.closed && !one.life.finish;
      if (is_open) one.life.missing += lost;
    }
  }

  /// What others said of its time before its first entry came belongs to it too.
  void begin(Followed& one, std::int64_t at_us) const {
    one.begun = true;
    one.life.others = population;
    for (const LedgerEntry& early : recent) {
      if (early.at_us >= at_us) collect(one, early, 0);
    }
  }

  static void collect(Followed& one, const LedgerEntry& entry, std::int64_t lost) {
    Life& life = one.life;
    if (life.finish && entry.at_us > life.finish->end_us) {
      one.closed = entry.at_us > life.finish->end_us + kStragglersUs;
      return;
    }
    life.missing += lost;
    const auto* finish = std::get_if<Finish>(&entry.what);
    if (finish != nullptr && finish->request == life.request) {
      life.finish = *finish;
      return;
    }
    const auto* seen = std::get_if<Observed>(&entry.what);
    const bool foreign = seen != nullptr && seen->observation.request.ref.request != life.request;
    if (!foreign && !std::holds_alternative<RequestNamed>(entry.what)) {
      life.entries.push_back(entry);
    }
  }
};

Explainer::Explainer(std::string who) : state_(std::make_unique<State>()) {
  std::uint64_t number = 0;
  const char* end = who.data() + who.size();
  const auto read = std::from_chars(who.data(), end, number);
  if (read.ec == std::errc{} && read.ptr == end) state_->number = RequestId{number};
  state_->who = std::move(who);
}

Explainer::~Explainer() = default;

void Explainer::take(const LedgerEntry& entry) {
  State& s = *state_;
  const bool gap = s.next_number != 0 && entry.number > s.next_number;
  const auto lost = gap ? static_cast<std::int64_t>(entry.number - s.next_number) : 0;
  s.next_number = entry.number + 1;
  std::visit([&](const auto& what) { s.take(what); }, entry.what);
  s.last_us = std::max(s.last_us, entry.at_us);
  s.keep(entry, lost);
  apply(s.population, entry);
  for (auto& [id, one] : s.followed) {
    if (one.run == s.run) one.life.last_us = s.last_us;
  }
}

void Explainer::runs_until(std::int64_t at_us) {
  for (auto& [id, one] : state_->followed) {
    if (one.run != state_->run || one.life.finish) continue;
    one.life.runs = true;
    one.life.last_us = std::max(one.life.last_us, at_us);
  }
}

std::vector<Story> Explainer::stories() const {
  std::vector<Story> out;
  for (const auto& [request, one] : state_->followed) {
    const bool chosen = state_->by_name.empty() || state_->by_name.count(request) != 0;
    if (!chosen || !one.begun) continue;
    Life life = one.life;
    if (life.finish) {
      const std::int64_t end_us = life.finish->end_us;
      std::erase_if(life.entries, [&](const LedgerEntry& entry) { return entry.at_us > end_us; });
    }
    sort_by_time(life.entries);
    out.push_back(tell(life, state_->ranks));
  }
  return out;
}

std::int64_t Explainer::requests_seen() const noexcept { return state_->requests; }

} // namespace troupe::sched
