#include "schedulers/replay/replayer.hpp"

#include "schedulers/model/same_choice.hpp"
#include "schedulers/stage/policy_slot.hpp"

#include <compare>
#include <optional>
#include <tuple>
#include <utility>

namespace troupe::sched {

namespace {

/// Whose instance: each stage has its own, of each set. The canary's is kept apart, so that giving
/// one its recorded state leaves the other alone.
struct SeatKey {
  StageRef stage;
  PolicyEpoch epoch{};
  bool canary = false;
  auto operator<=>(const SeatKey&) const = default;
};

template <class Question>
struct Bench {
  std::optional<PolicySlot<Question>> slot;
  std::string refused; ///< Why the set cannot be built; "" when it can.
  bool ready = false;  ///< Its state is what the recorded instance had.
};

template <class Question>
using Benches = std::map<SeatKey, Bench<Question>>;

} // namespace

struct Replayer::State {
  const PolicyRegistry* registry;
  std::size_t differences_max;
  std::optional<PolicySet> other;
  std::map<PolicyEpoch, PolicySet> sets;
  std::tuple<Benches<AdmissionQuestion>, Benches<QueueQuestion>, Benches<RouterQuestion>,
             Benches<ChunkerQuestion>, Benches<HandoffQuestion>, Benches<BalancerQuestion>,
             Benches<StepQuestion>, Benches<OverlapQuestion>, Benches<ExpertQuestion>>
      benches;
  std::optional<std::uint64_t> next_number;
  ReplayReport report;

  template <class Question>
  Benches<Question>& of() {
    return std::get<Benches<Question>>(benches);
  }

  void skip(const std::string& kind, const std::string& why) {
    ++report.all.skipped;
    ++report.kinds[kind].skipped;
    ++report.skipped[why];
  }

  void fail(const std::string& kind, const std::string& policy, const std::string& why) {
    ++report.all.failed;
    ++report.kinds[kind].failed;
    report.failed.emplace(kind, policy + ": " + why);
  }

  /// The set that a decision is made by now; null when it is not known.
  const PolicySet* set_of(PolicyEpoch epoch) const {
    if (other) return &*other;
    const auto found = sets.find(epoch);
    return found == sets.end() ? nullptr : &found->second;
  }

  static std::string name_in(const PolicySet& set, const PolicyRegistry& registry,
                             const std::string& kind) {
    const auto found = set.kinds.find(kind);
    if (found == set.kinds.end() || found->second.policy.empty())
      return registry.default_name(kind);
    return found->second.policy;
  }

  template <class Question>
  void build(Bench<Question>& bench, const PolicySet& set) {
    auto made = PolicySlot<Question>::make(set, *registry);
    bench.slot.reset();
    if (made.ok())
      bench.slot.emplace(std::move(*made));
    else
      bench.refused = made.error().message;
  }

  /// Brings an instance to the state that the recorded one had before this question.
  template <class Question>
  void follow(Bench<Question>& bench, const PolicySet& set, const AskedOf<Question>& asked) {
    if (!asked.has_state) return;
    const std::uint64_t session = asked.question.session_hash();
    const bool is_there = bench.ready && bench.slot->state_for(session) == asked.state;
    if (!is_there) {
      if (bench.ready && !asked.gap) ++report.state_differs;
      build(bench, set); // A state is taken over by a fresh instance only.
      if (!bench.slot) return;
      bench.slot->restore(session, asked.state);
    }
    bench.ready = true;
  }

  template <class Question>
  Bench<Question>& bench_of(const LedgerEntry& entry, PolicyEpoch epoch, bool canary,
                            const PolicySet& set) {
    // Another set decides by one instance all along; its own canary has a seat of its own there.
    const SeatKey key =
        other ? SeatKey{entry.stage, {}, false} : SeatKey{entry.stage, epoch, canary};
    Bench<Question>& bench = of<Question>()[key];
    if (!bench.slot && bench.refused.empty()) build(bench, set);
    return bench;
  }

  /// Whether the recorded state belongs to the policy that is asked now.
  template <class Question>
  bool may_follow(const PolicySet& set, const Bench<Question>& bench, PolicyEpoch epoch,
                  const AskedOf<Question>& asked) const {
    if (!other) return true;
    const auto then = sets.find(epoch);
    if (then == sets.end() || asked.canary) return false;
    const std::string kind(Question::kKind);
    return name_in(then->second, *registry, kind) == name_in(set, *registry, kind) &&
           !bench.slot->is_canary(asked.question.session_hash());
  }

  template <class Question>
  void again(const LedgerEntry& entry, const Record& record, const AskedPtr<Question>& then) {
    const std::string kind(Question::kKind);
    ++report.all.decisions;
    ++report.kinds[kind].decisions;
    const PolicySet* set = set_of(record.epoch);
    if (set == nullptr) return skip(kind, "its policy set is not in this ledger");
    Bench<Question>& bench = bench_of<Question>(entry, record.epoch, then->canary, *set);
    if (!bench.slot) {
      ++report.unbuilt;
      return skip(kind, "its policy set cannot be built: " + bench.refused);
    }
    if (may_follow(*set, bench, record.epoch, *then))
      follow(bench, *set, *then);
    else
      bench.ready = true;
    if (!bench.slot) return skip(kind, "its policy set cannot be built: " + bench.refused);
    if (!bench.ready) return skip(kind, "the state of its policy comes later in this ledger");
    std::int64_t invalid = 0;
    const auto now = bench.slot->decide(then->question, invalid);
    judge(entry, record, then, now, bench, *set);
  }

  template <class Question>
  void judge(const LedgerEntry& entry, const Record& record, const AskedPtr<Question>& then,
             const Answered<Question>& now, Bench<Question>& bench, const PolicySet& set) {
    const auto& answer = now.asked->answer;
    if (other) {
      if (!now.fault.empty()) fail(std::string(Question::kKind), now.faulty, now.fault);
      return count(entry, record, then, now.asked, same_choice(answer, then->answer), now.fault);
    }
    const bool failed_then = then->answer.reason == Reason::replaced_invalid;
    if (failed_then && now.fault.empty() && comes_from_library<Question>(set)) {
      // A call that was late or crashed then cannot be repeated; its replacement can.
      bench.ready = false;
      return judge_default(entry, record, then, set);
    }
    std::string why = now.fault;
    if (failed_then && now.fault.empty())
      why = "its policy gave no valid answer then, and does now";
    const bool equal = answer == then->answer && now.asked->policy == then->policy;
    count(entry, record, then, now.asked, equal, why);
  }

  template <class Question>
  bool comes_from_library(const PolicySet& set) const {
    const std::string kind(Question::kKind);
    return registry->names(kind).count(name_in(set, *registry, kind)) == 0;
  }

  /// What the default of the kind answers, which is what counted then.
  template <class Question>
  void judge_default(const LedgerEntry& entry, const Record& record, const AskedPtr<Question>& then,
                     const PolicySet& set) {
    PolicySet defaults;
    defaults.epoch = set.epoch;
    auto slot = PolicySlot<Question>::make(defaults, *registry);
    TROUPE_CHECK(slot.ok(), "the default of a kind builds without options");
    std::int64_t invalid = 0;
    auto now = std::make_shared<AskedOf<Question>>(*slot->decide(then->question, invalid).asked);
    now->answer.reason = Reason::replaced_invalid;
    const bool equal = now->answer == then->answer && now->policy == then->policy;
    count(entry, record, then, AskedPtr<Question>(std::move(now)), equal, {});
  }

  template <class Question>
  void count(const LedgerEntry& entry, const Record& record, const AskedPtr<Question>& then,
             const AskedPtr<Question>& now, bool equal, const std::string& why) {
    ReplayTotals& kind = report.kinds[std::string(Question::kKind)];
    if (equal) {
      ++kind.equal;
      ++report.all.equal;
      return;
    }
    ++kind.different;
    ++report.all.different;
    if (report.first.size() >= differences_max) return;
    report.first.push_back(
        {entry.number, entry.at_us, entry.stage, record.epoch, record.ref, then, now, why});
  }

  void take(const LedgerEntry& entry, const Record& record) {
    if (record.too_large) {
      ++report.all.decisions;
      ++report.kinds[record.kind].decisions;
      return skip(record.kind, "its question was too large to be recorded");
    }
    if (!record.asked) {
      ++report.unasked;
      return;
    }
    std::visit([&](const auto& then) { again(entry, record, then); }, *record.asked);
  }

  void take(const LedgerEntry& entry, const Observed& observed) {
    for (auto& [key, bench] : of<QueueQuestion>()) {
      const bool is_meant = key.stage == entry.stage && (other || key.epoch == observed.epoch);
      if (!is_meant || !bench.slot) continue;
      bench.slot->observe([&](QueuePolicy& policy) { observe(policy, observed.observation); });
    }
  }

  /// After lost entries an instance is where it should be only once a state says so.
  void doubt_all() {
    std::apply(
        [](auto&... kinds) {
          const auto doubt = [](auto& kind) {
            for (auto& [key, bench] : kind)
              bench.ready = false;
          };
          (doubt(kinds), ...);
        },
        benches);
  }
};

Replayer::Replayer(const PolicyRegistry& registry, std::size_t differences_max)
    : state_(std::make_unique<State>()) {
  state_->registry = &registry;
  state_->differences_max = differences_max;
}

Replayer::Replayer(const PolicyRegistry& registry, ReplayOther other, std::size_t differences_max)
    : Replayer(registry, differences_max) {
  state_->other = std::move(other.set);
}

Replayer::~Replayer() = default;
Replayer::Replayer(Replayer&&) noexcept = default;
Replayer& Replayer::operator=(Replayer&&) noexcept = default;

void Replayer::learn(const SetLive& live) { state_->sets[live.set.epoch] = live.set; }

void Replayer::feed(const LedgerEntry& entry) {
  State& state = *state_;
  if (state.next_number && entry.number > *state.next_number) state.doubt_all();
  state.next_number = entry.number + 1;
  if (const auto* record = std::get_if<Record>(&entry.what)) {
    state.take(entry, *record);
  } else if (const auto* observed = std::get_if<Observed>(&entry.what)) {
    state.take(entry, *observed);
  } else if (const auto* live = std::get_if<SetLive>(&entry.what)) {
    learn(*live);
  }
}

const ReplayReport& Replayer::report() const noexcept { return state_->report; }

} // namespace troupe::sched
