// `troupe replay LEDGER`: decides everything again, by the same policies or by others.

#include "actors/app/commands.hpp"
#include "actors/app/config_loader.hpp"
#include "actors/app/job_setup.hpp"
#include "actors/app/replay_text.hpp"
#include "actors/ledger_reader.hpp"

#include <fmt/format.h>

#include <optional>

namespace troupe::app {

namespace {

Result<sched::Replayer> make_replayer(const ReplayArguments& arguments,
                                      const sched::PolicyRegistry& registry, std::string& other) {
  const auto kept = static_cast<std::size_t>(arguments.first);
  if (arguments.policies.empty()) return sched::Replayer(registry, kept);
  PolicyOutcome loaded = load_policy_file(arguments.policies, registry);
  if (!loaded.ok()) return Error{ErrorCode::bad_argument, error_lines(loaded.errors)};
  other = loaded.set.name;
  return sched::Replayer(registry, sched::ReplayOther{std::move(loaded.set)}, kept);
}

/// A stage may have switched before the ledger heard of its set: sets come first.
Status learn_sets(const std::string& folder, sched::Replayer& replayer) {
  const auto faults = actors::read_ledger(folder, [&](sched::LedgerEntry&& entry) {
    if (const auto* live = std::get_if<sched::SetLive>(&entry.what)) replayer.learn(*live);
  });
  return faults.status();
}

/// All that was compared is equal, and something was, if there is anything to compare.
bool is_equal(const sched::ReplayReport& report) {
  return report.all.different == 0 && (report.all.equal > 0 || report.all.decisions == 0);
}

} // namespace

int command_replay(const ReplayArguments& arguments) {
  const auto registry = program_policies();
  std::string other;
  auto replayer = make_replayer(arguments, *registry, other);
  if (!replayer.ok()) return fail(kExitRefused, replayer.error().message);
  if (const Status ok = learn_sets(arguments.ledger, *replayer); !ok.ok())
    return fail(exit_code_of(ok.error()), ok.error().message);
  auto reader = actors::LedgerReader::open(arguments.ledger);
  if (!reader.ok()) return fail(exit_code_of(reader.error()), reader.error().message);
  while (const auto entry = reader->next())
    replayer->feed(*entry);
  say_faults(reader->faults());
  for (const std::string& build : reader->builds()) {
    if (build == arguments.version) continue;
    fail(kExitDone, fmt::format("{}: written by version {}, this is {}: equal answers are promised "
                                "within one version",
                                arguments.ledger, build, arguments.version));
  }
  const sched::ReplayReport& report = replayer->report();
  fmt::print("{}", arguments.common.json ? replay_json(report) + "\n" : replay_text(report, other));
  return is_equal(report) ? kExitDone : kExitPartial;
}

} // namespace troupe::app
