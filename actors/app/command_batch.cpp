// `troupe batch`: an offline job from file to file through the actors.

#include "actors/app/commands.hpp"
#include "actors/app/job_control.hpp"
#include "actors/app/job_paths.hpp"
#include "actors/app/job_setup.hpp"
#include "actors/app/local_system.hpp"
#include "actors/app/metrics_file.hpp"
#include "actors/app/progress.hpp"
#include "actors/app/signals.hpp"
#include "actors/app/steady_clock.hpp"
#include "actors/app/thread_room.hpp"
#include "actors/ledger_reader.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <unistd.h>

namespace troupe::app {

namespace {

std::int64_t wall_clock_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Result<std::shared_ptr<BatchJob>> open_job(const BatchArguments& arguments, const JobSetup& setup,
                                           const BatchPaths& paths) {
  JobOptions options;
  options.order = arguments.order == "input" ? OutputOrder::input : OutputOrder::completion;
  options.restart = arguments.restart;
  options.line_bytes_max = setup.config.limits.line_bytes_max;
  options.now_us = wall_clock_us();
  const JobIdentity identity = job_identity(setup);
  auto job = paths.input == "-" ? open_stream_job(paths, identity, options)
                                : open_journal(paths, identity, options);
  if (!job.ok()) return job.error();
  return std::shared_ptr<BatchJob>(std::move(*job));
}

RunSummary job_summary(const JobFacts& facts, const BatchPaths& paths, RunEnd end) {
  RunSummary summary;
  summary.job_id = facts.job_id;
  summary.end = end;
  summary.requests_total = facts.lines;
  summary.requests_succeeded = facts.succeeded;
  summary.requests_failed = facts.failed;
  summary.errors_file = paths.errors;
  summary.prompt_tokens = facts.prompt_tokens;
  summary.completion_tokens = facts.completion_tokens;
  return summary;
}

int report(const BatchArguments& arguments, const RunSummary& summary, int exit_code) {
  if (arguments.common.json) {
    std::fputs((summary_json(summary) + "\n").c_str(), stdout);
  } else if (!arguments.common.quiet) {
    std::fputs(summary_text(summary).c_str(), stdout);
  }
  if (arguments.summary.empty()) return exit_code;
  const Status written = write_summary(summary, arguments.summary);
  if (written.ok()) return exit_code;
  return fail(kExitFailed,
              fmt::format("{}; {} lines have their answer, and the same command writes it again",
                          written.error().message,
                          summary.requests_succeeded + summary.requests_failed));
}

ProgressState progress_of(const actors::JobState& state, std::int64_t total,
                          const LocalSystem& system) {
  ProgressState out;
  out.succeeded = state.succeeded;
  out.failed = state.failed;
  out.total = total;
  out.requests = system.count_requests(state.running, state.waiting);
  out.run_done = state.run_done;
  out.prompt_tokens = state.prompt_tokens;
  out.completion_tokens = state.output_tokens;
  return out;
}

TopJob top_of(const actors::JobState& state) {
  return {state.succeeded, state.failed,        state.running,
          state.waiting,   state.prompt_tokens, state.output_tokens};
}

JobControlOptions control_options(const SystemConfig& config, const std::string& policy_text,
                                  const BatchPaths& paths) {
  JobControlOptions out;
  out.socket = config.control_socket.empty() ? paths.output + ".sock" : config.control_socket;
  out.policy_file = config.policies_file;
  out.policy_text = policy_text;
  out.swap_timeout_us = config.swap_timeout_ms * 1000;
  return out;
}

/// Ctrl-C once: finish what decodes; twice, or after the grace period: stop now.
class Interrupter {
public:
  Interrupter(LocalSystem& system, std::int64_t grace_us) : system_(system), grace_us_(grace_us) {}

  void poll() {
    const int seen = signals_seen();
    if (seen > 0 && level_ == 0) {
      level_ = 1;
      since_us_ = steady_us();
      spdlog::warn("stopping: what decodes finishes, the rest goes back; again to stop now");
      system_.interrupt(1);
    }
    const bool late = level_ == 1 && steady_us() - since_us_ > grace_us_;
    if (level_ == 1 && (seen > 1 || late)) {
      level_ = 2;
      system_.interrupt(2);
    }
  }

private:
  LocalSystem& system_;
  std::int64_t grace_us_;
  std::int64_t since_us_ = 0;
  int level_ = 0;
};

/// The registry of a run and the file it goes to: on the interval, and at the end.
class MetricsWriter {
public:
  explicit MetricsWriter(const JobSetup& setup)
      : file_(setup.config.metrics.file, setup.config.metrics.interval_s * 1'000'000) {
    if (!file_.is_wanted()) return;
    const std::filesystem::path folder = setup.config.model.path + "/";
    registry_ = std::make_shared<actors::Metrics>(
        folder.lexically_normal().parent_path().filename().string(), setup.config.cluster.name,
        setup.model.context_max);
  }

  /// Null when no file is wanted.
  const std::shared_ptr<actors::Metrics>& registry() const noexcept { return registry_; }

  void poll(const LocalSystem& system, const actors::JobState& job) {
    if (file_.is_due(steady_us())) write(system, job);
  }
  void write(const LocalSystem& system, const actors::JobState& job) {
    if (!registry_) return;
    actors::MetricsSample sample;
    sample.lines_succeeded = job.succeeded;
    sample.lines_failed = job.failed;
    sample.requests_running = job.running;
    sample.requests_waiting = sample.requests_deferred = job.waiting;
    sample.prompt_tokens = job.prompt_tokens;
    sample.output_tokens = job.output_tokens;
    system.add_to(sample);
    write(std::move(sample));
  }
  /// Of a job without a running system.
  void write(const JobFacts& facts) {
    if (!registry_) return;
    actors::MetricsSample sample;
    sample.lines_succeeded = facts.succeeded;
    sample.lines_failed = facts.failed;
    write(std::move(sample));
  }

private:
  void write(actors::MetricsSample sample) {
    sample.write_failures = file_.failures();
    registry_->sample(sample);
    file_.write(registry_->text(), steady_us());
  }

  MetricsFile file_;
  std::shared_ptr<actors::Metrics> registry_;
};

int exit_code_of(const actors::JobState& last, const JobFacts& facts) {
  if (last.code != ErrorCode::ok) return kExitFailed;
  if (!last.complete) return last_signal_exit_code();
  return facts.failed > 0 ? kExitPartial : kExitDone;
}

/// How to go on after what the journal does not know of; it says so itself of what it does.
std::string how_to_go_on(const actors::JobState& last, const BatchPaths& paths) {
  if (last.code != ErrorCode::rank_lost && last.code != ErrorCode::no_rank) return {};
  return paths.input == "-" ? "; a job on standard input cannot go on, use a file to be able to"
                            : "; the same command goes on";
}

int run_job(const BatchArguments& arguments, JobSetup setup, const BatchPaths& paths,
            const std::shared_ptr<BatchJob>& job, std::vector<OpenedRank> ranks) {
  MetricsWriter metrics(setup);
  SystemOptions options;
  options.metrics = metrics.registry();
  options.config = setup.config;
  options.policies = setup.policies;
  options.registry = setup.registry;
  options.job = job;
  options.text = setup.text;
  options.text.job_id = job->facts().job_id;
  options.text.created_s = job->facts().start_us / 1'000'000;
  options.inflight_max =
      arguments.inflight_max > 0 ? arguments.inflight_max : setup.config.limits.inflight_max;
  if (setup.config.ledger.level != "off") {
    options.ledger_directory = setup.config.ledger.directory.empty()
                                   ? paths.output + ".ledger"
                                   : setup.config.ledger.directory;
    // Epochs go on where the ledger of an earlier run ends: an epoch names one set.
    options.first_epoch = raw(next(actors::end_of_ledger(options.ledger_directory).highest_epoch));
  }
  watch_signals();
  const std::int64_t total = job->facts().lines;
  LocalSystem system(std::move(options), std::move(ranks));
  const auto board = std::make_shared<TopBoard>();
  auto control =
      std::make_unique<JobControl>(control_options(setup.config, setup.policies.text, paths),
                                   system.open_desk(board), setup.registry);
  Interrupter interrupter(system, setup.config.limits.stop_grace_s * 1'000'000);
  ProgressLine progress(progress_style(arguments.common.quiet || arguments.common.json));
  actors::JobState last;
  const auto on_state = [&](const actors::JobState& state) {
    last = state;
    board->publish(top_of(state), steady_us());
    std::fputs(progress.update(progress_of(state, total, system), steady_us()).c_str(), stderr);
  };
  {
    const ExitGuard guard;
    while (system.receive(on_state, [](const actors::Piece&) {})) {
      interrupter.poll();
      metrics.poll(system, last);
    }
  }
  std::fputs(progress.clear().c_str(), stderr);
  control.reset();
  system.stop();
  metrics.write(system, last);

  const JobFacts& facts = job->facts();
  const RunEnd end = last.code != ErrorCode::ok ? RunEnd::failed
                     : last.complete            ? RunEnd::finished
                                                : RunEnd::stopped;
  RunSummary summary = job_summary(facts, paths, end);
  summary.run_requests = last.run_done;
  summary.run_prompt_tokens = last.prompt_tokens;
  summary.run_completion_tokens = last.output_tokens;
  system.add_to(summary);
  const int exit_code = report(arguments, summary, exit_code_of(last, facts));
  if (last.code != ErrorCode::ok) return fail(exit_code, last.message + how_to_go_on(last, paths));
  if (last.complete) return exit_code;
  return fail(exit_code, paths.input == "-"
                             ? "stopped before the end; a job on standard input cannot go on"
                             : "stopped before the end; the same command goes on");
}

/// On a terminal --restart asks before results are thrown away.
bool may_restart(const BatchArguments& arguments, const BatchPaths& paths) {
  std::error_code error;
  const bool has_results = std::filesystem::file_size(paths.output, error) > 0 && !error;
  if (!arguments.restart || !has_results || ::isatty(STDIN_FILENO) == 0) return true;
  fmt::print(stderr, "troupe: --restart throws the results in {} away. Go on? [y/N] ",
             paths.output);
  std::fflush(stderr);
  const int answer = std::getchar();
  return answer == 'y' || answer == 'Y';
}

/// Everything the set-up read.
std::vector<NamedPath> read_files(const BatchArguments& arguments, const JobSetup& setup) {
  std::vector<NamedPath> files = model_files(setup.config.model.path);
  files.push_back({arguments.common.config, "configuration"});
  files.push_back({setup.config.policies_file, "policy"});
  for (const sched::LibrarySpec& library : setup.policies.libraries)
    files.push_back({library.path, "library"});
  return files;
}

} // namespace

int command_batch(const BatchArguments& arguments) {
  if (arguments.check) return check_batch_input(arguments);
  const BatchPaths paths = batch_paths(arguments.input, arguments.output, arguments.errors);
  ReportPaths reports{arguments.summary, arguments.metrics};
  Status ok = check_batch_paths(paths);
  if (ok.ok()) ok = check_reports(reports, paths);
  if (!ok.ok()) return fail(kExitRefused, ok.error().message);
  if (!may_restart(arguments, paths)) return fail(kExitRefused, "nothing was changed");
  auto setup = set_up(arguments.common, arguments.model, arguments.policies);
  if (!setup.ok()) return fail(exit_code_of(setup.error()), setup.error().message);
  if (!arguments.metrics.empty()) setup->config.metrics.file = arguments.metrics;
  reports.metrics = setup->config.metrics.file;
  ok = check_reports(reports, paths);
  if (ok.ok()) ok = check_not_read(reports, paths, read_files(arguments, *setup));
  if (!ok.ok()) return fail(kExitRefused, ok.error().message);
  auto job = open_job(arguments, *setup, paths);
  if (!job.ok()) {
    return fail(exit_code_of(job.error()), job.error().message);
  }
  for (const std::string& warning : (*job)->facts().warnings)
    spdlog::warn("{}", warning);
  if (const JobFacts& facts = (*job)->facts(); facts.done() > 0 && !facts.is_finished) {
    spdlog::info("going on: {} of {} lines have their answer", facts.done(), facts.lines);
  }
  if ((*job)->facts().is_finished) {
    if (!arguments.common.quiet) std::fputs("troupe: already complete\n", stderr);
    const JobFacts& facts = (*job)->facts();
    MetricsWriter(*setup).write(facts);
    return report(arguments, job_summary(facts, paths, RunEnd::already_complete),
                  facts.failed > 0 ? kExitPartial : kExitDone);
  }
  const Status room = check_thread_room(threads_needed(setup->config));
  auto ranks = room.ok() ? open_ranks(setup->config) : room.error();
  if (!ranks.ok()) {
    (*job)->discard();
    return fail(exit_code_of(ranks.error()), setup->places.placed(ranks.error()).message);
  }
  for (const OpenedRank& rank : *ranks) {
    const engine::KvFacts& kv = rank.engine->kv();
    spdlog::info("{}: {} on {}, {} state slots of {} bytes, {} kv blocks of {} tokens and {} bytes",
                 rank.name, sched::role_name(rank.group.role), rank.engine->model().cpu_path,
                 kv.slots, kv.slot_bytes, kv.blocks, kv.block_tokens, kv.block_bytes);
  }
  return run_job(arguments, std::move(*setup), paths, *job, std::move(*ranks));
}

} // namespace troupe::app
