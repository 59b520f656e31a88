// `troupe explain REQUEST`: one request's story out of a ledger, in words or as JSON.

#include "actors/app/commands.hpp"
#include "actors/app/story_json.hpp"
#include "actors/ledger_reader.hpp"
#include "schedulers/core/printable.hpp"
#include "schedulers/explain/explainer.hpp"
#include "schedulers/explain/story_text.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

namespace troupe::app {

namespace {

/// Why there is nothing to tell, and what to do.
std::string not_found(const ExplainArguments& arguments, std::int64_t requests) {
  if (requests == 0) {
    return fmt::format("{}: the ledger names no request; it is written while a job runs with "
                       "ledger.level = \"decisions\"",
                       arguments.ledger);
  }
  return fmt::format(
      "{}: no request is named {} or has that number; the ledger names {} requests, `troupe "
      "ledger tail --what named --ledger {}` shows the last ones. Old ones go when the ledger "
      "reaches ledger.size_max",
      arguments.ledger, quote(arguments.request), requests, arguments.ledger);
}

/// Prints why a rank was not chosen; false when it was no candidate of any decision.
bool print_why_not(const sched::Story& story, const std::string& rank) {
  const std::vector<std::string> lines = sched::why_not(story, rank);
  for (const std::string& line : lines)
    fmt::print("{}\n", line);
  return !lines.empty();
}

} // namespace

int command_explain(const ExplainArguments& arguments) {
  sched::Explainer explainer(arguments.request);
  const auto faults = actors::read_ledger(
      arguments.ledger, [&](sched::LedgerEntry&& entry) { explainer.take(entry); });
  if (!faults.ok()) return fail(exit_code_of(faults.error()), faults.error().message);
  if (!arguments.common.quiet) say_faults(*faults);
  const std::vector<sched::Story> stories = explainer.stories();
  if (stories.empty()) return fail(kExitRefused, not_found(arguments, explainer.requests_seen()));
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
  if (candidate) return kExitDone;
  return fail(kExitRefused, fmt::format("--why-not: {} was a candidate of no decision about "
                                        "this request; the story without --why-not names those "
                                        "that were",
                                        quote(arguments.why_not)));
}

} // namespace troupe::app
