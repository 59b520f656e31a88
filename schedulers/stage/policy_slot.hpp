// One stage's instances of one policy kind: the chosen one, a canary for some sessions, and the
// default that replaces an invalid answer.

#pragma once

#include "schedulers/core/check.hpp"
#include "schedulers/policy/questions.hpp"
#include "schedulers/registry/policy_registry.hpp"
#include "schedulers/stage/effects.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace troupe::sched {

/// What came of a question.
template <class Question>
struct Answered {
  AskedPtr<Question> asked; ///< Never null.
  std::string fault;        ///< What the policy did that was replaced; "" when its answer counted.
  std::string faulty;       ///< Its name then.

  const Question& question() const noexcept { return asked->question; }
  const Decision<typename Question::Answer>& decision() const noexcept { return asked->answer; }
};

template <class Question>
class PolicySlot {
public:
  using Kind = typename Question::Kind;

  /// Errors name the key and the nearest valid name, or what a library did.
  static Result<PolicySlot> make(const PolicySet& set, const PolicyRegistry& registry) {
    PolicySlot slot;
    slot.epoch_ = set.epoch;
    const auto chosen = set.kinds.find(kind());
    const PolicySpec spec = chosen == set.kinds.end() ? PolicySpec{} : chosen->second;
    slot.default_ = Seat{registry.default_name(kind()), cast(registry.build_default(kind()))};
    auto built = registry.build(kind(), spec, set.libraries);
    if (!built.ok()) return built.error();
    slot.chosen_ = Seat{spec.policy.empty() ? slot.default_.name : spec.policy,
                        cast(std::move(built).value())};
    if (const auto canary = set.canary.find(kind()); canary != set.canary.end()) {
      auto made = registry.build(kind(), canary->second, set.libraries);
      if (!made.ok()) return made.error();
      slot.canary_ = Seat{canary->second.policy, cast(std::move(made).value())};
      slot.canary_permille_ = set.canary_permille;
    }
    return slot;
  }

  /// Asks the session's policy. An invalid answer counts in `invalid` and the default is asked
  /// instead; its reason then is replaced_invalid.
  Answered<Question> decide(Question question, std::int64_t& invalid) {
    Seat& seat = seat_of(question.session_hash());
    auto asked = std::make_shared<AskedOf<Question>>();
    asked->canary = &seat == &canary_;
    keep_state(seat, *asked);
    question.context.epoch = epoch_;
    Answered<Question> out;
    asked->policy = seat.name;
    asked->answer = ask(*seat.policy, question);
    if (const Status valid = question.check(asked->answer); !valid.ok()) {
      ++invalid;
      out.faulty = seat.name;
      out.fault = seat.policy->failure();
      if (out.fault.empty()) out.fault = valid.error().message;
      asked->policy = default_.name;
      asked->answer = ask(*default_.policy, question);
      TROUPE_CHECK(question.check(asked->answer).ok(), "the default of a kind decides validly");
      asked->answer.reason = Reason::replaced_invalid;
    }
    asked->question = std::move(question);
    recent_[recent_next_++ % recent_.size()] = asked;
    seat.gap = true; // Until somebody records it.
    out.asked = std::move(asked);
    return out;
  }

  /// The ledger's record of a decision, with its question unless that is too large; what is asked
  /// next follows on it.
  Record record(const Answered<Question>& answered) {
    const bool kept = may_be_kept(answered.question());
    (answered.asked->canary ? canary_ : chosen_).gap = !kept;
    Record made;
    made.kind = kind();
    made.policy = answered.asked->policy;
    made.epoch = epoch_;
    made.reason = answered.asked->answer.reason;
    made.too_large = !kept;
    if (kept) made.asked = answered.asked;
    return made;
  }

  /// A record of a decision that nobody had to make.
  Record record_without_question(Reason reason) const {
    Record made;
    made.kind = kind();
    made.policy = chosen_.name;
    made.epoch = epoch_;
    made.reason = reason;
    return made;
  }

  /// Tells every instance what came of decisions: `tell(policy)`.
  template <class Tell>
  void observe(const Tell& tell) {
    for (Seat* seat : {&chosen_, &canary_, &default_}) {
      if (seat->policy) tell(*seat->policy);
    }
  }

  /// Takes over the state of instances of the same name from the slot of the set before.
  void import_state(const PolicySlot& before) {
    for (Seat* seat : {&chosen_, &canary_, &default_}) {
      if (!seat->policy) continue;
      const Seat* from = before.seat_named(seat->name);
      if (from != nullptr) seat->policy->import_state(from->policy->export_state());
    }
    recent_ = before.recent_;
    recent_next_ = before.recent_next_;
  }

  /// Whether this slot's instances answer validly what `live` was asked lately, after taking over
  /// its state. Their own state is spent by it: for instances that are thrown away.
  Status rehearse(const PolicySlot& live) {
    import_state(live);
    for (const AskedPtr<Question>& asked : live.recent_) {
      if (!asked) continue;
      for (Seat* seat : {&chosen_, &canary_}) {
        if (!seat->policy) continue;
        Question question = asked->question;
        question.context.epoch = epoch_;
        const auto answer = ask(*seat->policy, question);
        const Status valid = question.check(answer);
        if (valid.ok()) continue;
        const std::string why = seat->policy->failure();
        return Status(ErrorCode::mismatch, kind() + ": policy \"" + seat->name +
                                               "\", asked a question of this run: " +
                                               (why.empty() ? valid.error().message : why));
      }
    }
    return {};
  }

  /// Whether a question about this session is put to the canary.
  bool is_canary(std::uint64_t session_hash) const noexcept {
    return canary_.policy && session_hash != 0 && in_canary_share(session_hash, canary_permille_);
  }

  /// State of the instance that a question about this session is put to.
  std::string state_for(std::uint64_t session_hash) const {
    return (is_canary(session_hash) ? canary_ : chosen_).policy->export_state();
  }

  /// Gives that instance, which was not asked yet, the state of another one of its name.
  void restore(std::uint64_t session_hash, const std::string& state) {
    seat_of(session_hash).policy->import_state(state);
  }

  const Kind& policy() const noexcept { return *chosen_.policy; }
  static std::string kind() { return std::string(Question::kKind); }
  PolicyEpoch epoch() const noexcept { return epoch_; }

private:
  /// State up to so many bytes goes along with every question.
  static constexpr std::size_t kSmallState = 64;
  /// Larger state goes along once in so many questions.
  static constexpr std::uint64_t kStateEvery = 256;
  static constexpr std::size_t kRecent = 8;

  struct Seat {
    std::string name;
    std::unique_ptr<Kind> policy;
    std::uint64_t asked = 0;
    bool large = false; ///< Its state was larger than kSmallState when last seen.
    bool gap = true;    ///< Its last question was not recorded.
  };

  PolicySlot() = default;

  static std::unique_ptr<Kind> cast(std::unique_ptr<Policy> policy) {
    Kind* of_kind = dynamic_cast<Kind*>(policy.get());
    TROUPE_CHECK(of_kind != nullptr, "a policy is registered under its own kind");
    static_cast<void>(policy.release());
    return std::unique_ptr<Kind>(of_kind);
  }

  Seat& seat_of(std::uint64_t session_hash) noexcept {
    return is_canary(session_hash) ? canary_ : chosen_;
  }

  /// The seat whose state an instance of that name may take over.
  const Seat* seat_named(const std::string& name) const noexcept {
    for (const Seat* seat : {&chosen_, &canary_, &default_}) {
      if (seat->policy && seat->name == name) return seat;
    }
    return nullptr;
  }

  static void keep_state(Seat& seat, AskedOf<Question>& asked) {
    asked.gap = seat.gap;
    if (seat.large && !seat.gap && ++seat.asked % kStateEvery != 0) return;
    asked.has_state = true;
    asked.state = seat.policy->export_state();
    seat.large = asked.state.size() > kSmallState;
  }

  PolicyEpoch epoch_{};
  Seat chosen_, canary_, default_;
  std::int64_t canary_permille_ = 0;
  std::array<AskedPtr<Question>, kRecent> recent_;
  std::size_t recent_next_ = 0;
};

} // namespace troupe::sched
