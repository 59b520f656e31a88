// One stage's instance of one policy kind, with the default that replaces an invalid answer.

#pragma once

#include "schedulers/core/check.hpp"
#include "schedulers/registry/policy_registry.hpp"

#include <memory>
#include <string>
#include <utility>

namespace troupe::sched {

template <class Kind>
class PolicySlot {
public:
  /// @pre the set was checked against the registry
  PolicySlot(std::string kind, const PolicySet& set, const PolicyRegistry& registry)
      : kind_(std::move(kind)), epoch_(set.epoch), default_name_(registry.default_name(kind_)) {
    const auto chosen = set.kinds.find(kind_);
    const bool left_out = chosen == set.kinds.end() || chosen->second.policy.empty();
    name_ = left_out ? default_name_ : chosen->second.policy;
    auto built = registry.build(kind_, set);
    TROUPE_CHECK(built.ok(), "the policy set was checked before a stage is built from it");
    chosen_ = cast(std::move(built).value());
    fallback_ = cast(registry.build_default(kind_));
  }

  /// `ask(policy)` gives a decision, `check(decision)` a Status. An invalid decision is counted and
  /// the default asked instead; its reason then is replaced_invalid.
  template <class Ask, class Check>
  auto decide(const Ask& ask, const Check& check, std::int64_t& invalid) {
    auto decision = ask(*chosen_);
    if (check(decision).ok()) return decision;
    ++invalid;
    decision = ask(*fallback_);
    TROUPE_CHECK(check(decision).ok(), "the default of a kind decides validly");
    decision.reason = Reason::replaced_invalid;
    return decision;
  }

  /// Tells every instance what came of decisions: `tell(policy)`.
  template <class Tell>
  void observe(const Tell& tell) {
    tell(*chosen_);
    tell(*fallback_);
  }

  const Kind& policy() const noexcept { return *chosen_; }
  const std::string& kind() const noexcept { return kind_; }
  /// Name of the policy that made a decision with this reason.
  const std::string& name(Reason reason) const noexcept {
    return reason == Reason::replaced_invalid ? default_name_ : name_;
  }
  PolicyEpoch epoch() const noexcept { return epoch_; }

private:
  static std::unique_ptr<Kind> cast(std::unique_ptr<Policy> policy) {
    Kind* of_kind = dynamic_cast<Kind*>(policy.get());
    TROUPE_CHECK(of_kind != nullptr, "a policy is registered under its own kind");
    static_cast<void>(policy.release());
    return std::unique_ptr<Kind>(of_kind);
  }

  std::string kind_;
  PolicyEpoch epoch_;
  std::string name_;
  std::string default_name_;
  std::unique_ptr<Kind> chosen_;
  std::unique_ptr<Kind> fallback_;
};

} // namespace troupe::sched
