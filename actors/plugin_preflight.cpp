#include "actors/plugin_preflight.hpp"

#include "actors/plugin_child.hpp"
#include "schedulers/plugin/plugin_policy.hpp"
#include "schedulers/plugin/trial.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

namespace troupe::actors {
namespace {

/// Order of the child's arguments.
enum Argument : std::size_t { path, digest, create_ms, decide_us, kind, name, options, count };

/// The last line of what a child printed, when it says something.
std::string last_words(std::string printed) {
  while (!printed.empty() && printed.back() == '\n')
    printed.pop_back();
  const std::string line = printed.substr(printed.rfind('\n') + 1);
  return line.empty() ? "" : "; it printed: " + line.substr(0, 300);
}

std::string signal_text(int number) {
  const char* short_name = ::sigabbrev_np(number);
  return short_name != nullptr ? fmt::format("SIG{}", short_name)
                               : fmt::format("signal {}", number);
}

std::string what_happened(const ChildEnd& end, std::int64_t phase_ms) {
  const std::string phase = end.phase.empty() ? "start" : end.phase;
  switch (end.how) {
  case ChildEnd::How::said_ok:
    return {};
  case ChildEnd::How::said_no:
    return end.reason;
  case ChildEnd::How::killed:
    return fmt::format("{} ended the process with {}{}", phase, signal_text(end.number),
                       last_words(end.printed));
  case ChildEnd::How::exited:
    return fmt::format("{} ended the process with exit code {}{}", phase, end.number,
                       last_words(end.printed));
  case ChildEnd::How::hung:
    return end.phase.empty() ? "the process did not begin in time" + last_words(end.printed)
                             : fmt::format("{} did not return within {} ms", phase, phase_ms);
  case ChildEnd::How::not_started:
    return fmt::format("no process could be started: {}", std::strerror(end.number));
  }
  return "unknown";
}

void report(const std::string& line) {
  std::string one_line = line;
  for (char& c : one_line) {
    if (c == '\n') c = ' ';
  }
  one_line += '\n';
  // A parent that is gone wants no report.
  static_cast<void>(!::write(kReportDescriptor, one_line.data(), one_line.size()));
}

[[noreturn]] void verdict(const Status& status) {
  report(status.ok() ? "ok" : "no " + status.error().message);
  std::_Exit(0);
}

/// Nothing is left of the child when its parent dies, and it leaves no core file.
void be_harmless() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_DUMPABLE, 0);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
}

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
  report("at create of " + who.substr(0, who.size() - 2));
  auto policy = make();
  if (!policy.ok()) return policy.status();
  report("at decide of " + who.substr(0, who.size() - 2));
  if (const Status status = sched::try_policy(wanted.kind, **policy); !status.ok()) {
    return Status(status.error().code, who + status.error().message);
  }
  report("at state of " + who.substr(0, who.size() - 2));
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
  report("at destroy of " + who.substr(0, who.size() - 2));
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
  be_harmless();
  if (arguments.size() != Argument::count) {
    verdict(Status(ErrorCode::bad_argument, "policy test --preflight is for troupe itself"));
  }
  report("at load");
  const auto file = read_library(arguments[Argument::path]);
  if (!file.ok()) verdict(file.status());
  if (file->digest != arguments[Argument::digest]) {
    verdict(Status(ErrorCode::mismatch,
                   file->path + ": the file changed while it was looked at; try again"));
  }
  {
    auto library = PluginLibrary::load(*file);
    if (!library.ok()) verdict(library.status());
    if (!arguments[Argument::kind].empty()) {
      const Status tried = try_one(*library, {arguments[Argument::kind], arguments[Argument::name],
                                              arguments[Argument::options]});
      if (!tried.ok()) verdict(tried);
    }
    report("at unload");
  }
  verdict({});
}

} // namespace troupe::actors
