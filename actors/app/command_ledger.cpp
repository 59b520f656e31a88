// `troupe ledger tail|stats|export`: what a ledger holds.

#include "actors/app/commands.hpp"
#include "actors/app/config_loader.hpp"
#include "actors/app/ledger_stats.hpp"
#include "actors/ledger_reader.hpp"
#include "actors/ledger_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <deque>

namespace troupe::app {

namespace {

using Entry = sched::LedgerEntry;

/// The folder that is meant, or why none is.
Result<std::string> folder_of(const LedgerArguments& arguments) {
  if (!arguments.ledger.empty()) return arguments.ledger;
  const ConfigOutcome loaded = load_system_config(arguments.common.config, arguments.common.sets);
  if (!loaded.ok()) return Error{ErrorCode::bad_argument, error_lines(loaded.errors)};
  if (!loaded.config.ledger.directory.empty()) return loaded.config.ledger.directory;
  return Error{ErrorCode::bad_argument,
               "ledger: no folder: pass --ledger DIR (a batch job keeps it in OUTPUT.ledger), or "
               "set ledger.directory"};
}

bool is_wanted(const LedgerArguments& arguments, const Entry& entry) {
  return arguments.what.empty() || arguments.what == actors::entry_kind(entry);
}

void print(const Entry& entry, bool is_json) {
  const std::string line = is_json ? actors::entry_json(entry) : actors::entry_words(entry);
  fmt::print("{}\n", line);
}

void tail(const LedgerArguments& arguments, actors::LedgerReader& reader) {
  std::deque<Entry> last;
  while (auto entry = reader.next()) {
    if (!is_wanted(arguments, *entry)) continue;
    last.push_back(std::move(*entry));
    if (static_cast<std::int64_t>(last.size()) > arguments.lines) last.pop_front();
  }
  for (const Entry& entry : last)
    print(entry, arguments.common.json);
}

void export_all(const LedgerArguments& arguments, actors::LedgerReader& reader) {
  while (const auto entry = reader.next()) {
    if (is_wanted(arguments, *entry)) print(*entry, true);
  }
}

void stats(const LedgerArguments& arguments, actors::LedgerReader& reader) {
  LedgerStats totals;
  while (const auto entry = reader.next())
    totals.add(*entry);
  totals.dropped = reader.lost();
  fmt::print("{}", arguments.common.json ? stats_json(totals) + "\n" : stats_text(totals));
}

} // namespace

void say_faults(const std::vector<actors::LedgerFault>& faults) {
  constexpr std::size_t kSaidMax = 20;
  for (std::size_t i = 0; i < std::min(faults.size(), kSaidMax); ++i)
    fail(kExitDone, actors::fault_text(faults[i]));
  if (faults.size() > kSaidMax)
    fail(kExitDone, fmt::format("and {} more places of this ledger", faults.size() - kSaidMax));
}

int exit_code_of(const std::vector<actors::LedgerFault>& faults, bool has_read) {
  if (!actors::is_damaged(faults)) return kExitDone;
  return has_read ? kExitPartial : kExitFailed;
}

int command_ledger(const LedgerArguments& arguments) {
  const auto folder = folder_of(arguments);
  if (!folder.ok()) return fail(kExitRefused, folder.error().message);
  auto reader = actors::LedgerReader::open(*folder);
  if (!reader.ok()) return fail(exit_code_of(reader.error()), reader.error().message);
  if (arguments.action == "tail")
    tail(arguments, *reader);
  else if (arguments.action == "export")
    export_all(arguments, *reader);
  else
    stats(arguments, *reader);
  say_faults(reader->faults());
  return exit_code_of(reader->faults(), reader->has_read());
}

} // namespace troupe::app
