// `troupe explain REQUEST`: one request's story out of a ledger, in words or as JSON.

#include "actors/app/commands.hpp"
#include "actors/app/running_ledger.hpp"
#include "actors/app/story_json.hpp"
#include "actors/ledger_reader.hpp"
#include "schedulers/core/printable.hpp"
#include "schedulers/explain/explainer.hpp"
#include "schedulers/explain/story_text.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::app {

namespace {

/// What is read: all of a folder, or what a running system has written when it was asked.
struct Source {
  std::string folder;
  std::optional<LedgerPlace> running;
};

Result<Source> source_of(const ExplainArguments& arguments) {
  if (!arguments.ledger.empty()) return Source{arguments.ledger, {}};
  const auto place = ask_ledger(arguments.connect);
  if (place.ok()) return Source{place->folder, *place};
  return Error{place.error().code, place.error().message +
                                       "; a job that has ended is told from its ledger: --ledger "
                                       "DIR, as in results.jsonl.ledger"};
}

/// What could not be read, and whether anything could.
struct Gaps {
  std::vector<actors::LedgerFault> faults;
  bool has_read = false;
};

/// A running system goes on writing behind what is read here.
Result<Gaps> read(const Source& source, sched::Explainer& explainer) {
  auto reader = actors::LedgerReader::open(source.folder);
  if (!reader.ok()) return reader.error();
  while (const auto entry = reader->next()) {
    if (source.running && entry->number >= source.running->next_number) break;
    explainer.take(*entry);
  }
  Gaps gaps{reader->faults(), reader->has_read()};
  if (source.running) {
    explainer.runs_until(source.running->at_us);
    std::erase_if(gaps.faults, [](const actors::LedgerFault& fault) { return fault.torn; });
  }
  return gaps;
}

/// Why there is nothing to tell, and what to do.
std::string not_found(const ExplainArguments& arguments, const Source& source,
                      std::int64_t requests) {
  const char* coming =
      source.running ? "; a line of the input has a name there from when it is taken up" : "";
  if (requests == 0) {
    return fmt::format("{}: the ledger names no request (any more): it is written while a job runs "
                       "with ledger.level = \"decisions\" or \"events\", and old names go when it "
                       "reaches ledger.size_max{}",
                       source.folder, coming);
  }
  return fmt::format(
      "{}: no request is named {} or has that number; the ledger names {} requests, `troupe "
      "ledger tail --what named --ledger {}` shows the last ones. Old ones go when the ledger "
      "reaches ledger.size_max{}",
      source.folder, quote(arguments.request), requests, source.folder, coming);
}

/// Prints why a rank was not chosen; false when it was no candidate of any decision.
bool print_why_not(const sched::Story& story, const std::string& rank) {
  const std::vector<std::string> lines = sched::why_not(story, rank);
  for (const std::string& line : lines)
    fmt::print("{}\n", line);
  return !lines.empty();
}

/// "prefill-0 (or 0), rank 1 (or 1)".
std::string candidates_text(const std::vector<sched::Story>& stories) {
  std::map<RankId, std::string> all;
  for (const sched::Story& story : stories)
    all.merge(sched::candidates_of(story));
  std::string out;
  for (const auto& [rank, name] : all)
    out += fmt::format("{}{} (or {})", out.empty() ? "" : ", ", quote(name), raw(rank));
  return out.empty() ? "none: the ledger has no decision about it with candidates" : out;
}

} // namespace

int command_explain(const ExplainArguments& arguments) {
  const auto source = source_of(arguments);
  if (!source.ok()) {
    return fail(arguments.connect.empty() ? kExitRefused : kExitFailed, source.error().message);
  }
  sched::Explainer explainer(arguments.request);
  const auto gaps = read(*source, explainer);
  if (!gaps.ok()) return fail(exit_code_of(gaps.error()), gaps.error().message);
  if (!arguments.common.quiet) say_faults(gaps->faults);
  const int read_code = exit_code_of(gaps->faults, gaps->has_read);
  const std::vector<sched::Story> stories = explainer.stories();
  if (stories.empty()) {
    // What is asked for may have stood in what cannot be read.
    return fail(read_code != kExitDone ? read_code : kExitRefused,
                not_found(arguments, *source, explainer.requests_seen()));
  }
  bool candidate = arguments.why_not.empty();
  for (const sched::Story& story : stories) {
    if (!arguments.why_not.empty()) {
      candidate = print_why_not(story, arguments.why_not) || candidate;
    } else if (arguments.common.json) {
      fmt::print("{}\n", story_json(story));
    } else {
      fmt::print("{}", sched::story_text(story));
    }
  }
  if (candidate) return read_code;
  return fail(kExitRefused, fmt::format("--why-not: {} was a candidate of no decision about "
                                        "this request; candidates were {}",
                                        quote(arguments.why_not), candidates_text(stories)));
}

} // namespace troupe::app
