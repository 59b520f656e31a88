#include "actors/plugin_preflight.hpp"

#include "actors/plugin_child.hpp"
#include "actors/plugin_child_report.hpp"
#include "schedulers/plugin/plugin_policy.hpp"
#include "schedulers/plugin/trial.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace troupe::actors {
namespace {

/// Order of the child's arguments.
enum Argument : std::size_t { path, digest, create_ms, decide_us, kind, name, options, count };

/// Creates, asks, takes the state over and destroys: what a stage would do.
Status try_one(const std::shared_ptr<const PluginLibrary>& library, const PreflightPolicy& wanted) {
  const sched::PluginPolicy* row = library->table().find(wanted.kind, wanted.name);
  const std::string who = wanted.kind + " \"" + wanted.name + "\": ";
  if (row == nullptr) {
    return Status(ErrorCode::not_found, who + "the library holds no such policy");
  }
  const auto make = [&] {
    return sched::make_plugin_policy(*row, library, wanted.options, {}, sched::direct_runner);
  };
  report_line("at create of " + who.substr(0, who.size() - 2));
  auto policy = make();
  if (!policy.ok()) return policy.status();
  report_line("at decide of " + who.substr(0, who.size() - 2));
  if (const Status status = sched::try_policy(wanted.kind, **policy); !status.ok()) {
    return Status(status.error().code, who + status.error().message);
  }
  report_line("at state of " + who.substr(0, who.size() - 2));
  const std::string state = (*policy)->export_state();
  if (const std::string why = (*policy)->failure(); !why.empty()) {
    return Status(ErrorCode::unsupported, who + why);
  }
  auto next = make();
  if (!next.ok()) return next.status();
  (*next)->import_state(state);
  if (const Status status = sched::try_policy(wanted.kind, **next); !status.ok()) {
    return Status(status.error().code, who + "with state taken over, " + status.error().message);
  }
  report_line("at destroy of " + who.substr(0, who.size() - 2));
  policy->reset();
  next->reset();
  return {};
}

} // namespace

bool is_preflight_child() noexcept { return std::getenv("TROUPE_PREFLIGHT") != nullptr; }

Status preflight(const PreflightProgram& program, const LibraryFile& file,
                 const sched::LibrarySpec& limits, const PreflightPolicy& policy) {
  if (is_preflight_child()) {
    return Status(ErrorCode::unsupported, file.path + ": pre-flight inside of a pre-flight");
  }
  ChildOrder order;
  order.program = program.program;
  order.arguments = program.arguments;
  order.phase_ms = limits.create_ms;
  for (const std::string& word :
       {file.path, file.digest, std::to_string(limits.create_ms), std::to_string(limits.decide_us),
        policy.kind, policy.name, policy.options}) {
    order.arguments.push_back(word);
  }
  const ChildEnd end = run_child(order);
  const std::string what = what_happened(end, order.phase_ms);
  if (end.how == ChildEnd::How::said_ok) return {};
  // What the child found itself begins with the file's name when it is about the file.
  const bool is_named = what.rfind(file.path, 0) == 0;
  return Status(ErrorCode::unsupported,
                (is_named ? "" : file.path + ": ") + what + " (pre-flight, in a child process)");
}

void preflight_child(std::span<const std::string> arguments) {
  begin_child();
  if (arguments.size() != Argument::count) {
    report_verdict(Status(ErrorCode::bad_argument, "policy test --preflight is for troupe itself"));
  }
  report_line("at load");
  const auto file = read_library(arguments[Argument::path]);
  if (!file.ok()) report_verdict(file.status());
  if (file->digest != arguments[Argument::digest]) {
    report_verdict(Status(ErrorCode::mismatch,
                          file->path + ": the file changed while it was looked at; try again"));
  }
  {
    auto library = PluginLibrary::load(*file);
    if (!library.ok()) report_verdict(library.status());
    if (!arguments[Argument::kind].empty()) {
      const Status tried = try_one(*library, {arguments[Argument::kind], arguments[Argument::name],
                                              arguments[Argument::options]});
      if (!tried.ok()) report_verdict(tried);
    }
    report_line("at unload");
  }
  report_verdict({});
}

void look_at_library(int argc, char** argv) {
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const std::vector<std::string> begin = PreflightProgram().arguments;
  if (words.size() < begin.size() || !std::equal(begin.begin(), begin.end(), words.begin())) return;
  preflight_child(std::span(words).subspan(begin.size()));
}

} // namespace troupe::actors
