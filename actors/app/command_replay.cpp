// `troupe replay LEDGER`: decides everything again, by the same policies or by others.

#include "actors/app/commands.hpp"
#include "actors/app/config_loader.hpp"
#include "actors/app/guarded_work.hpp"
#include "actors/app/job_setup.hpp"
#include "actors/app/replay_text.hpp"
#include "actors/ledger_reader.hpp"
#include "schedulers/replay/stage_replayer.hpp"

#include <fmt/format.h>

#include <chrono>
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

Result<Replayed> replay(const std::string& folder, sched::Replayer& replayer,
                        sched::StageReplayer& stages, bool whole_stages, WorkLine& line) {
  auto reader = actors::LedgerReader::open(folder);
  if (!reader.ok()) return reader.error();
  while (const auto entry = reader->next()) {
    line.beat();
    replayer.feed(*entry);
    if (whole_stages) stages.feed(*entry);
  }
  return Replayed{replayer.report(), stages.finish(), reader->faults(), reader->has_read(),
                  reader->builds()};
}

/// A stage may have switched before the ledger heard of its set: sets come first.
Status learn_sets(const std::string& folder, sched::Replayer& replayer, WorkLine& line) {
  std::set<std::string> libraries;
  const auto faults = actors::read_ledger(folder, [&](sched::LedgerEntry&& entry) {
    line.beat();
    const auto* live = std::get_if<sched::SetLive>(&entry.what);
    if (live == nullptr) return;
    replayer.learn(*live);
    for (const sched::LibrarySpec& library : live->set.libraries)
      libraries.insert(library.path);
  });
  for (const std::string& path : libraries)
    line.suspect(path);
  return faults.status();
}

/// All that was compared is equal, and something was, if there is anything to compare; no policy
/// failed, and all sets could be asked.
bool is_equal(const Replayed& replayed) {
  const sched::ReplayTotals& all = replayed.decisions.all;
  return all.different == 0 && all.failed == 0 && replayed.decisions.unbuilt == 0 &&
         (all.equal > 0 || all.decisions == 0) && replayed.stages.different() == 0;
}

/// Asks everything again and prints the report. Returns or finishes with the exit code: libraries
/// that were asked are not waited for once the report is out.
int replay_all(const ReplayArguments& arguments, WorkLine& line) {
  const auto registry = program_policies();
  std::string other;
  if (!arguments.policies.empty()) line.suspect("those of " + arguments.policies);
  auto replayer = make_replayer(arguments, *registry, other);
  if (!replayer.ok()) return fail(kExitRefused, replayer.error().message);
  if (const Status ok = learn_sets(arguments.ledger, *replayer, line); !ok.ok())
    return fail(exit_code_of(ok.error()), ok.error().message);
  sched::StageReplayer stages(*registry);
  const auto replayed =
      replay(arguments.ledger, *replayer, stages, arguments.policies.empty(), line);
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
  line.finish(all_printed(is_equal(*replayed) ? exit_code_of(replayed->faults, replayed->has_read)
                                              : kExitPartial));
}

/// Longest silence of a replay: one call of a policy, or one wait for a disk.
constexpr std::chrono::seconds kSilentMax{30};

} // namespace

int command_replay(const ReplayArguments& arguments) {
  const auto work = [&](WorkLine& line) {
    int exit_code = kExitFailed;
    try {
      exit_code = replay_all(arguments, line);
    } catch (...) {
      exit_code = fail_thrown();
    }
    line.finish(all_printed(exit_code));
  };
  const auto end = do_guarded(work, kSilentMax);
  if (!end.ok()) return fail(kExitFailed, end.error().message);
  if (end->finished) return end->exit_code;
  std::string libraries;
  for (const std::string& one : end->suspects)
    libraries += (libraries.empty() ? "; libraries that it asks: " : ", ") + one;
  return fail(
      kExitFailed,
      fmt::format("{}: replay gave no report: {}{}{}", arguments.ledger, end->what, libraries,
                  libraries.empty() ? "" : "; `troupe policy test LIB` looks at one alone"));
}

} // namespace troupe::app
