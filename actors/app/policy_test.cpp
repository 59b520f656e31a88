#include "actors/app/policy_test.hpp"

#include "actors/plugin_child_report.hpp"
#include "actors/plugin_library.hpp"
#include "schedulers/core/options.hpp"
#include "schedulers/core/printable.hpp"

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

/// Keeps the check of a line that holds one.
void take_check(const std::string& line, std::vector<CheckResult>& checks) {
  std::string rest;
  if (!takes(line, "check ", rest)) return;
  const Json check = Json::parse(rest, nullptr, false);
  if (!check.is_object()) return;
  checks.push_back({check.value("name", ""), check.value("ok", false), check.value("detail", "")});
}

/// Checks of the library itself, and kind and name of each policy, in its order.
void look_at_library(const PolicyTestOptions& options, const std::string& digest,
                     PolicyTestReport& report) {
  ChildOrder order = order_of(options, digest, "");
  order.on_line = [&](const std::string& line) {
    take_check(line, report.library);
    std::string rest;
    if (!takes(line, "policy ", rest)) return;
    const std::size_t slash = rest.find('/');
    report.policies.push_back({rest.substr(0, slash), rest.substr(slash + 1), {}});
  };
  const ChildEnd end = actors::run_child(order);
  if (end.how != ChildEnd::How::said_ok) report.library.push_back(last_finding(end, order));
}

Error unknown_policy(const std::string& wanted, const std::set<std::string>& names) {
  const std::string near = nearest_name(wanted, names);
  return {ErrorCode::unknown_key,
          fmt::format("--policy: found {}, expected one of {}{}", quote(wanted),
                      fmt::join(names, ", "),
                      near.empty() ? "" : "; did you mean \"" + near + "\"?")};
}

void test_policy(const PolicyTestOptions& options, const std::string& digest,
                 PolicyResult& policy) {
  ChildOrder order = order_of(options, digest, policy.kind + "/" + policy.name);
  order.on_line = [&](const std::string& line) { take_check(line, policy.checks); };
  const ChildEnd end = actors::run_child(order);
  if (end.how == ChildEnd::How::said_ok) return;
  CheckResult last = last_finding(end, order);
  if (last.name != actors::kPhaseOfTraces) last.detail += "; the checks behind it were not run";
  policy.checks.push_back(std::move(last));
}

bool all_ok(const std::vector<CheckResult>& checks) {
  return std::all_of(checks.begin(), checks.end(), [](const CheckResult& one) { return one.ok; });
}

Json json_of(const std::vector<CheckResult>& checks) {
  Json all = Json::array();
  for (const CheckResult& check : checks)
    all.push_back({{"name", check.name}, {"ok", check.ok}, {"detail", check.detail}});
  return all;
}

/// One line a check; adds to the counts.
std::string text_of(const std::vector<CheckResult>& checks, std::size_t& ran, std::size_t& failed) {
  std::string text;
  for (const CheckResult& check : checks) {
    ++ran;
    failed += check.ok ? 0 : 1;
    std::string line = message_line(
        fmt::format("  {}  {:<16}{}", check.ok ? "ok  " : "FAIL", check.name, check.detail));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

} // namespace

bool PolicyTestReport::ok() const noexcept {
  return all_ok(library) && std::all_of(policies.begin(), policies.end(),
                                        [](const PolicyResult& one) { return all_ok(one.checks); });
}

Result<PolicyTestReport> test_library(const PolicyTestOptions& options) {
  const auto file = actors::read_library(options.library);
  if (!file.ok()) return file.error();
  PolicyTestReport report;
  look_at_library(options, file->digest, report);
  if (!options.policy.empty() && !report.policies.empty()) {
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
    policies.push_back(
        {{"kind", policy.kind}, {"name", policy.name}, {"checks", json_of(policy.checks)}});
  }
  const Json document = {
      {"ok", report.ok()}, {"library", json_of(report.library)}, {"policies", std::move(policies)}};
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string policy_test_text(const PolicyTestReport& report, const std::string& library) {
  std::size_t ran = 0;
  std::size_t failed = 0;
  std::string text = message_line(library) + "\n" + text_of(report.library, ran, failed);
  for (const PolicyResult& policy : report.policies) {
    text += message_line(fmt::format("{} \"{}\"", policy.kind, policy.name)) + "\n";
    text += text_of(policy.checks, ran, failed);
  }
  return text + fmt::format("{} of {} checks failed\n", failed, ran);
}

} // namespace troupe::app
