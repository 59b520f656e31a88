// The child of `troupe policy test`: loads the library, runs the suite of one policy, reports each
// check as it ends.

#include "actors/app/policy_test.hpp"
#include "actors/plugin_child_report.hpp"
#include "actors/plugin_library.hpp"
#include "actors/plugin_options.hpp"
#include "schedulers/conformance/plugin_suite.hpp"
#include "schedulers/plugin/plugin_policy.hpp"
#include "schedulers/registry/policy_registry.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

namespace troupe::app {

namespace {

using actors::PluginLibrary;
using actors::PluginOption;
using actors::PluginOptions;
using sched::PluginPolicy;
using sched::conformance::Finding;
using Json = nlohmann::ordered_json;

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void report(const std::string& name, const Finding& finding) {
  const Json check = {{"name", name}, {"ok", finding.ok}, {"detail", finding.detail}};
  actors::report_line("check " + check.dump(-1, ' ', false, Json::error_handler_t::replace));
}

/// A policy file names built-in policies first: the same name would never reach the library.
Finding name_is_free(const PluginPolicy& policy) {
  sched::PolicyRegistry registry;
  sched::register_builtin_policies(registry);
  if (registry.names(policy.kind).count(policy.name) == 0) return {};
  return {false, fmt::format("\"{}\" is a built-in policy of this kind; choose another name.",
                             policy.name)};
}

/// The options with one of them set, as JSON of the host.
Result<std::string> options_with(const PluginOptions& schema, const std::string& name,
                                 const PluginOption::Value& value) {
  OptionTable given("options");
  given.set(name, {value, ""});
  return schema.json_of(std::move(given));
}

/// One more or less than the bound; none where there is no such number.
std::optional<PluginOption::Value> beyond(const PluginOption::Value& bound, int direction) {
  if (const auto* number = std::get_if<double>(&bound)) return *number + direction;
  const std::int64_t whole = std::get<std::int64_t>(bound);
  using Limits = std::numeric_limits<std::int64_t>;
  if (whole == (direction < 0 ? Limits::min() : Limits::max())) return std::nullopt;
  return whole + direction;
}

/// Makes and destroys an instance; what it said against the options, or "".
std::string refusal(const PluginPolicy& policy, const std::string& json) {
  const auto made =
      sched::make_plugin_policy(policy, nullptr, json, {1'000'000, 60'000}, sched::direct_runner);
  return made.ok() ? "" : made.error().message;
}

/// Every value that the schema allows is taken, and what it does not allow never gets there.
Finding check_option(const PluginPolicy& policy, const PluginOptions& schema,
                     const PluginOption& option) {
  const auto taken = [&](const PluginOption::Value& value) {
    const auto json = options_with(schema, option.name, value);
    return json.ok() ? refusal(policy, *json) : json.error().message;
  };
  std::vector<PluginOption::Value> allowed;
  if (option.minimum) allowed.push_back(*option.minimum);
  if (option.maximum) allowed.push_back(*option.maximum);
  if (option.type == PluginOption::Type::boolean) allowed.insert(allowed.end(), {true, false});
  for (const PluginOption::Value& value : allowed) {
    if (const std::string why = taken(value); !why.empty()) {
      return {false, fmt::format("{}: a value that options_schema allows is refused: {}.",
                                 option.name, why)};
    }
  }
  const std::pair<const std::optional<PluginOption::Value>*, int> bounds[] = {{&option.minimum, -1},
                                                                              {&option.maximum, 1}};
  for (const auto& [bound, direction] : bounds) {
    if (!*bound) continue;
    const auto value = beyond(**bound, direction);
    if (value && options_with(schema, option.name, *value).ok()) {
      return {false, fmt::format("{}: a value beyond its bound is not refused.", option.name)};
    }
  }
  const bool is_count = option.type == PluginOption::Type::integer;
  if (!is_count || (option.minimum && option.maximum)) return {};
  return {true, fmt::format("note: {} has no minimum or no maximum.", option.name)};
}

Finding check_options(const PluginPolicy& policy, const PluginOptions& schema) {
  Finding all;
  for (const PluginOption& option : schema.all()) {
    const Finding one = check_option(policy, schema, option);
    if (!one.ok) return one;
    if (!one.detail.empty()) all = one;
  }
  return all;
}

/// Names what is in the library, and gives it back.
[[noreturn]] void list(std::shared_ptr<const PluginLibrary> library) {
  report("load", {});
  for (const PluginPolicy& policy : library->table().policies)
    actors::report_line("policy " + policy.kind + "/" + policy.name);
  actors::report_line("at unload");
  library.reset();
  const bool is_gone = actors::library_counts().pinned == 0;
  report("unload", {is_gone, is_gone ? ""
                                     : "the library stays in memory after its last use, so a new "
                                       "build of it would not replace it; build it with "
                                       "-fno-gnu-unique, as the target troupe::policy does."});
  actors::report_verdict({});
}

void test(const PluginPolicy& policy, const PolicyTestOptions& options) {
  sched::conformance::SuiteOptions suite;
  suite.seed = options.seed;
  suite.decide_us = options.decide_us;
  suite.now_us = now_us;
  const sched::conformance::Listener listener{
      [](const std::string& check) { actors::report_line("at " + check); }, report};
  listener.begin("name");
  listener.end("name", name_is_free(policy));
  listener.begin("schema");
  const auto schema = PluginOptions::parse(policy.options_schema);
  const auto defaults =
      schema.ok() ? schema->json_of(OptionTable("options")) : Result<std::string>(schema.error());
  if (!defaults.ok()) return listener.end("schema", {false, defaults.error().message + "."});
  listener.end("schema", {});
  run_plugin_suite(policy, *defaults, suite, listener);
  // What the defaults cannot make is known by now.
  if (!refusal(policy, *defaults).empty()) return;
  listener.begin("options");
  listener.end("options", check_options(policy, *schema));
}

} // namespace

void policy_test_child(const PolicyTestOptions& options, const std::string& digest) {
  actors::begin_child();
  actors::report_line("at load");
  const auto file = actors::read_library(options.library);
  if (!file.ok()) actors::report_verdict(file.status());
  if (file->digest != digest) {
    actors::report_verdict(Status(
        ErrorCode::mismatch, file->path + ": the file changed while it was tested; try again"));
  }
  auto library = PluginLibrary::load(*file);
  if (!library.ok()) actors::report_verdict(library.status());
  if (options.policy.empty()) list(std::move(library).value());
  const std::size_t slash = options.policy.find('/');
  const std::string kind = options.policy.substr(0, slash);
  const std::string name = slash == std::string::npos ? "" : options.policy.substr(slash + 1);
  const PluginPolicy* policy = (*library)->table().find(kind, name);
  if (policy == nullptr) {
    actors::report_verdict(Status(ErrorCode::not_found, options.policy + ": no such policy in it"));
  }
  test(*policy, options);
  actors::report_verdict({});
}

} // namespace troupe::app
