#include "actors/app/policy_test.hpp"

#include "actors/plugin_child_report.hpp"
#include "actors/plugin_library.hpp"
#include "schedulers/core/options.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <utility>

namespace troupe::app {

namespace {

using actors::ChildEnd;
using actors::ChildOrder;
using Json = nlohmann::ordered_json;

/// A check asks at most so many questions, each of which may take decide_us and be answered.
constexpr std::int64_t kQuestionsOfACheck = 12'000;
constexpr std::int64_t kBesidesQuestionsMs = 5'000;

ChildOrder order_of(const PolicyTestOptions& options, const std::string& digest,
                    const std::string& policy) {
  ChildOrder order;
  order.program = options.program;
  order.arguments = {"policy",        "test",
                     options.library, "--child",
                     "--digest",      digest,
                     "--seed",        std::to_string(options.seed),
                     "--decide-us",   std::to_string(options.decide_us),
                     "--create-ms",   std::to_string(options.create_ms)};
  if (!policy.empty()) order.arguments.insert(order.arguments.end(), {"--policy", policy});
  order.phase_ms =
      kBesidesQuestionsMs + options.create_ms + kQuestionsOfACheck * options.decide_us / 1'000;
  return order;
}

/// The text behind `word` when the line begins with it.
bool takes(const std::string& line, std::string_view word, std::string& rest) {
  if (line.rfind(word, 0) != 0) return false;
  rest = line.substr(word.size());
  return true;
}

/// What a child found, or how it ended: the finding of the check that ran then.
CheckResult last_finding(const ChildEnd& end, const ChildOrder& order) {
  CheckResult finding{
      end.phase.empty() ? "load" : end.phase, end.how == ChildEnd::How::said_ok, {}};
  if (!finding.ok) finding.detail = actors::what_happened(end, order.phase_ms);
  return finding;
}

/// Kind and name of each policy, in the library's order; the finding of the load.
CheckResult list_policies(const PolicyTestOptions& options, const std::string& digest,
                          std::vector<PolicyResult>& policies) {
  ChildOrder order = order_of(options, digest, "");
  order.on_line = [&](const std::string& line) {
    std::string rest;
    if (!takes(line, "policy ", rest)) return;
    const std::size_t slash = rest.find('/');
    policies.push_back({rest.substr(0, slash), rest.substr(slash + 1), {}});
  };
  const ChildEnd end = actors::run_child(order);
  CheckResult load = last_finding(end, order);
  load.name = "load";
  return load;
}

Error unknown_policy(const std::string& wanted, const std::set<std::string>& names) {
  const std::string near = nearest_name(wanted, names);
  return {ErrorCode::unknown_key,
          fmt::format("--policy: found \"{}\", expected one of {}{}", wanted,
                      fmt::join(names, ", "),
                      near.empty() ? "" : "; did you mean \"" + near + "\"?")};
}

void test_policy(const PolicyTestOptions& options, const std::string& digest,
                 PolicyResult& policy) {
  ChildOrder order = order_of(options, digest, policy.kind + "/" + policy.name);
  order.on_line = [&](const std::string& line) {
    std::string rest;
    if (!takes(line, "check ", rest)) return;
    const Json check = Json::parse(rest, nullptr, false);
    if (!check.is_object()) return;
    policy.checks.push_back(
        {check.value("name", ""), check.value("ok", false), check.value("detail", "")});
  };
  const ChildEnd end = actors::run_child(order);
  if (end.how == ChildEnd::How::said_ok) return;
  CheckResult last = last_finding(end, order);
  last.detail += "; the checks behind it were not run";
  policy.checks.push_back(std::move(last));
}

} // namespace

bool PolicyTestReport::ok() const noexcept {
  return load.ok && std::all_of(policies.begin(), policies.end(), [](const PolicyResult& policy) {
           return std::all_of(policy.checks.begin(), policy.checks.end(),
                              [](const CheckResult& check) { return check.ok; });
         });
}

Result<PolicyTestReport> test_library(const PolicyTestOptions& options) {
  const auto file = actors::read_library(options.library);
  if (!file.ok()) return file.error();
  PolicyTestReport report;
  report.load = list_policies(options, file->digest, report.policies);
  if (!report.load.ok) return report;
  if (!options.policy.empty()) {
    std::set<std::string> names;
    for (const PolicyResult& policy : report.policies)
      names.insert(policy.kind + "/" + policy.name);
    if (names.count(options.policy) == 0) return unknown_policy(options.policy, names);
    std::erase_if(report.policies, [&](const PolicyResult& policy) {
      return policy.kind + "/" + policy.name != options.policy;
    });
  }
  for (PolicyResult& policy : report.policies)
    test_policy(options, file->digest, policy);
  return report;
}

std::string policy_test_json(const PolicyTestReport& report) {
  Json policies = Json::array();
  for (const PolicyResult& policy : report.policies) {
    Json checks = Json::array();
    for (const CheckResult& check : policy.checks)
      checks.push_back({{"name", check.name}, {"ok", check.ok}, {"detail", check.detail}});
    policies.push_back(
        {{"kind", policy.kind}, {"name", policy.name}, {"checks", std::move(checks)}});
  }
  const Json load = {{"ok", report.load.ok}, {"detail", report.load.detail}};
  const Json document = {{"ok", report.ok()}, {"load", load}, {"policies", std::move(policies)}};
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string policy_test_text(const PolicyTestReport& report, const std::string& library) {
  const auto line = [](const CheckResult& check) {
    return fmt::format("  {}  {:<16}{}\n", check.ok ? "ok  " : "FAIL", check.name, check.detail);
  };
  std::string text = library + "\n" + line(report.load);
  std::size_t checks = 1;
  std::size_t failed = report.load.ok ? 0 : 1;
  for (const PolicyResult& policy : report.policies) {
    text += fmt::format("{} \"{}\"\n", policy.kind, policy.name);
    for (const CheckResult& check : policy.checks) {
      text += line(check);
      ++checks;
      failed += check.ok ? 0 : 1;
    }
  }
  return text + fmt::format("{} of {} checks failed\n", failed, checks);
}

} // namespace troupe::app
