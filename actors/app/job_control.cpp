#include "actors/app/job_control.hpp"

#include "actors/app/control_path.hpp"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <utility>

namespace troupe::app {

namespace {

/// A swap may wait behind others, then takes two phases.
constexpr std::int64_t kPhasesMax = 7;
constexpr std::int64_t kAnswerMoreUs = 5'000'000;

} // namespace

JobControl::JobControl(const JobControlOptions& options, std::shared_ptr<ControlDesk> desk,
                       std::shared_ptr<const sched::PolicyRegistry> registry) {
  const std::int64_t answer_us = kPhasesMax * options.swap_timeout_us + kAnswerMoreUs;
  auto listener = ControlListener::open(control_path(options.socket));
  if (listener.ok()) {
    socket_ = std::make_unique<ControlSocket>(std::move(listener).value(),
                                              ControlRequests(desk, registry, answer_us),
                                              ControlSocketOptions{});
    spdlog::info("control socket: {}", socket_->path());
  } else {
    spdlog::warn("{}; the job runs without it", listener.error().message);
  }
  if (options.policy_file.empty()) return;
  PolicyWatchOptions watch;
  watch.file = std::filesystem::absolute(options.policy_file).lexically_normal().string();
  watch.first_text = options.policy_text;
  watch.answer_us = answer_us;
  watch_ = std::make_unique<PolicyWatch>(
      std::move(watch), std::move(desk),
      [registry = std::move(registry)](std::string_view text, const std::string& file) {
        return parse_policy_file(text, file, *registry);
      });
}

JobControl::~JobControl() = default;

} // namespace troupe::app
