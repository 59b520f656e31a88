// `troupe replay LEDGER`: decides everything again, by the same policies or by others.

#include "actors/app/commands.hpp"
#include "actors/app/config_loader.hpp"
#include "actors/app/job_setup.hpp"
#include "actors/app/replay_text.hpp"
#include "actors/ledger_reader.hpp"
#include "schedulers/replay/stage_replayer.hpp"

#include <fmt/format.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

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

/// Everything of a ledger again: decision by decision, and stage by stage where it has events.
struct Replayed {
  sched::ReplayReport decisions;
  sched::StagesReport stages;
  std::vector<actors::LedgerFault> faults;
  bool has_read = false;
  std::set<std::string> builds;
};

Result<Replayed> replay(const std::string& folder, sched::Replayer replayer,
                        const sched::PolicyRegistry& registry, bool whole_stages) {
  auto reader = actors::LedgerReader::open(folder);
  if (!reader.ok()) return reader.error();
  sched::StageReplayer stages(registry);
  while (const auto entry = reader->next()) {
    replayer.feed(*entry);
    if (whole_stages) stages.feed(*entry);
  }
  return Replayed{replayer.report(), stages.finish(), reader->faults(), reader->has_read(),
                  reader->builds()};
}

/// A stage may have switched before the ledger heard of its set: sets come first.
Status learn_sets(const std::string& folder, sched::Replayer& replayer) {
  const auto faults = actors::read_ledger(folder, [&](sched::LedgerEntry&& entry) {
    if (const auto* live = std::get_if<sched::SetLive>(&entry.what)) replayer.learn(*live);
  });
  return faults.status();
}

/// All that was compared is equal, and something was, if there is anything to compare; no policy
/// failed.
bool is_equal(const Replayed& replayed) {
  const sched::ReplayTotals& all = replayed.decisions.all;
  return all.different == 0 && all.failed == 0 && (all.equal > 0 || all.decisions == 0) &&
         replayed.stages.different() == 0;
}

} // namespace

int command_replay(const ReplayArguments& arguments) {
  const auto registry = program_policies();
  std::string other;
  auto replayer = make_replayer(arguments, *registry, other);
  if (!replayer.ok()) return fail(kExitRefused, replayer.error().message);
  if (const Status ok = learn_sets(arguments.ledger, *replayer); !ok.ok())
    return fail(exit_code_of(ok.error()), ok.error().message);
  const auto replayed =
      replay(arguments.ledger, std::move(*replayer), *registry, arguments.policies.empty());
  if (!replayed.ok()) return fail(exit_code_of(replayed.error()), replayed.error().message);
  say_faults(replayed->faults);
  for (const std::string& build : replayed->builds) {
    if (build == arguments.version) continue;
    fail(kExitDone, fmt::format("{}: written by version {}, this is {}: equal answers are promised "
                                "within one version",
                                arguments.ledger, build, arguments.version));
  }
  const std::string text =
      arguments.common.json
          ? replay_json(replayed->decisions, replayed->stages) + "\n"
          : replay_text(replayed->decisions, other) + stages_text(replayed->stages);
  fmt::print("{}", text);
  return is_equal(*replayed) ? exit_code_of(replayed->faults, replayed->has_read) : kExitPartial;
}

} // namespace troupe::app
