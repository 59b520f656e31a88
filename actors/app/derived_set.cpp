#include "actors/app/derived_set.hpp"

#include "actors/app/config_bind.hpp"
#include "actors/app/policy_text.hpp"
#include "schedulers/core/printable.hpp"

#include <utility>

namespace troupe::app {

namespace {

using Specs = std::map<std::string, sched::PolicySpec>;

Error refusal(std::string message) { return {ErrorCode::bad_argument, std::move(message)}; }

Status check_kind(const std::string& kind, bool is_canary, const sched::PolicyRegistry& registry) {
  std::set<std::string> valid = registry.kinds();
  if (is_canary) std::erase_if(valid, [](const auto& one) { return !sched::has_canary(one); });
  if (valid.contains(kind)) return {};
  const bool decides_for_many = registry.kinds().contains(kind);
  return refusal("found the kind " + quote(kind) +
                 (decides_for_many ? ", which decides for many requests at once, expected one that "
                                     "can have a canary"
                                   : ", expected a kind of policy") +
                 name_hint(decides_for_many ? "" : kind, valid));
}

/// Puts `policy` into `specs`, or takes the kind out.
Status change(Specs& specs, const std::string& kind, const std::string& policy, const char* what,
              const sched::PolicySet& set, const sched::PolicyRegistry& registry) {
  if (policy == "off") {
    if (specs.erase(kind) > 0) return {};
    return refusal("the live set \"" + set.name + "\" has no " + what + " of " + kind +
                   ", so there is nothing to take away");
  }
  const std::set<std::string> names = registry.names(kind, set.libraries);
  if (!names.contains(policy)) {
    return refusal(kind + ": found the policy " + quote(policy) + ", expected one of this kind" +
                   name_hint(policy, names));
  }
  sched::PolicySpec spec{policy, OptionTable(kind)};
  const auto built = registry.build(kind, spec, set.libraries);
  if (!built.ok()) return built.status();
  specs.insert_or_assign(kind, std::move(spec));
  return {};
}

} // namespace

Result<sched::PolicySet> with_shadow(sched::PolicySet set, const std::string& kind,
                                     const std::string& policy,
                                     const sched::PolicyRegistry& registry) {
  Status good = check_kind(kind, false, registry);
  if (good.ok()) good = change(set.shadow, kind, policy, "shadow", set, registry);
  if (!good.ok()) return good.error();
  set.text = policy_set_text(set);
  return set;
}

Result<sched::PolicySet> with_canary(sched::PolicySet set, const std::string& kind,
                                     const std::string& policy, std::int64_t permille,
                                     const sched::PolicyRegistry& registry) {
  Status good = check_kind(kind, true, registry);
  if (good.ok()) good = change(set.canary, kind, policy, "canary", set, registry);
  if (!good.ok()) return good.error();
  if (permille > 0) set.canary_permille = permille;
  if (set.canary.empty()) set.canary_permille = 0;
  if (!set.canary.empty() && set.canary_permille == 0) {
    return refusal("the share of the sessions is missing, expected --share from 0.001 to 1, as in "
                   "--share 0.05");
  }
  set.text = policy_set_text(set);
  return set;
}

} // namespace troupe::app
