#include "schedulers/conformance/plugin_suite.hpp"

#include "schedulers/conformance/question_source.hpp"
#include "schedulers/conformance/same_answer.hpp"
#include "schedulers/conformance/stretched_policy.hpp"
#include "schedulers/plugin/plugin_policy.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

namespace troupe::sched::conformance {
namespace {

/// No deadline: `within_deadline` measures, and everything else is about answers.
constexpr PluginLimits kNoHurry{1'000'000'000, 1'000'000};

Maker maker_of(const PluginPolicy& policy, const std::string& options) {
  return [policy, options] {
    return make_plugin_policy(policy, nullptr, options, kNoHurry, direct_runner);
  };
}

/// Options that are no object: create may refuse them or not look at them, but must not crash.
Finding create_fails(const PluginPolicy& policy) {
  constexpr std::array<std::string_view, 5> kBroken = {"", "{", "[]", "{\"x\":", "{\"x\": \"\\"};
  constexpr std::size_t kRoom = 32;
  constexpr char kGuard = 0x5A;
  for (const std::string_view text : kBroken) {
    const std::string options(text);
    std::array<char, 2 * kRoom> error{};
    error.fill(kGuard);
    void* self = policy.policy.create(options.c_str(), options.size(), error.data(), kRoom);
    const bool in_bounds =
        std::all_of(error.begin() + kRoom, error.end(), [](char c) { return c == kGuard; });
    const std::string what = "create with the options `" + options + "` ";
    if (!in_bounds) return {false, what + "wrote beyond error_size."};
    if (self != nullptr) {
      policy.policy.destroy(self);
      continue;
    }
    if (std::find(error.begin(), error.begin() + kRoom, '\0') == error.begin() + kRoom) {
      return {false, what + "returned NULL and left no terminating zero in `error`."};
    }
    if (error[0] == '\0') return {false, what + "returned NULL without a reason in `error`."};
  }
  return {};
}

/// Puts the same questions to the policy as it is, and with longer structs.
template <class Question>
Finding same_at_any_stride(const PluginPolicy& policy, const std::string& options,
                           const SuiteOptions& suite) {
  using Kind = typename Question::Kind;
  auto plain = maker_of(policy, options)();
  auto longer = maker_of(stretched(policy), options)();
  if (!plain.ok() || !longer.ok()) return {false, "create failed once after it was done before."};
  auto& one = dynamic_cast<Kind&>(**plain);
  auto& two = dynamic_cast<Kind&>(**longer);
  Rng rng(suite.seed);
  for (std::int64_t i = 0; i < suite.questions; ++i) {
    const auto question =
        draw_question<Question>(Situation::ordinary, rng, static_cast<std::uint64_t>(i));
    if (same_answer(ask(one, question), ask(two, question))) continue;
    return {false, "question " + std::to_string(i) + " of seed " + std::to_string(suite.seed) +
                       ": another answer when structs are 64 bytes longer than this header knows; "
                       "read arrays with the accessors of policy_abi.h, not as arrays of structs." +
                       (two.failure().empty() ? "" : " It said: " + two.failure() + ".")};
  }
  return {};
}

Finding stride(const PluginPolicy& policy, const std::string& options, const SuiteOptions& suite) {
  const std::string& kind = policy.kind;
  if (kind == AdmissionQuestion::kKind) {
    return same_at_any_stride<AdmissionQuestion>(policy, options, suite);
  }
  if (kind == QueueQuestion::kKind) {
    return same_at_any_stride<QueueQuestion>(policy, options, suite);
  }
  if (kind == RouterQuestion::kKind) {
    return same_at_any_stride<RouterQuestion>(policy, options, suite);
  }
  if (kind == ChunkerQuestion::kKind) {
    return same_at_any_stride<ChunkerQuestion>(policy, options, suite);
  }
  if (kind == HandoffQuestion::kKind) {
    return same_at_any_stride<HandoffQuestion>(policy, options, suite);
  }
  if (kind == BalancerQuestion::kKind) {
    return same_at_any_stride<BalancerQuestion>(policy, options, suite);
  }
  if (kind == OverlapQuestion::kKind) {
    return same_at_any_stride<OverlapQuestion>(policy, options, suite);
  }
  return same_at_any_stride<StepQuestion>(policy, options, suite);
}

} // namespace

bool run_plugin_suite(const PluginPolicy& policy, const std::string& options,
                      const SuiteOptions& suite, const Listener& listener) {
  bool created = true;
  bool deterministic = true;
  const Listener watching{listener.begin, [&](const std::string& name, const Finding& finding) {
                            const bool first = name == "create" || name == "within_deadline";
                            created = created && (finding.ok || !first);
                            deterministic =
                                deterministic && (finding.ok || name != "deterministic");
                            listener.end(name, finding);
                          }};
  bool ok = run_suite(policy.kind, maker_of(policy, options), suite, watching);
  if (!created) return false;
  const auto check = [&](const char* name, const Finding& finding) {
    listener.end(name, finding);
    ok = ok && finding.ok;
  };
  // Who answers the same question in two ways would fail for another reason.
  if (deterministic) {
    listener.begin("stride");
    check("stride", stride(policy, options, suite));
  }
  listener.begin("create_fails");
  check("create_fails", create_fails(policy));
  return ok;
}

} // namespace troupe::sched::conformance
