// The doors of a running job: its control socket, and the watch of its policy file.

#pragma once

#include "actors/app/control_desk.hpp"
#include "actors/app/control_socket.hpp"
#include "actors/app/policy_watch.hpp"
#include "schedulers/registry/policy_registry.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace troupe::app {

struct JobControlOptions {
  std::string socket;      ///< As wanted; a shorter place is taken when it is too long.
  std::string policy_file; ///< "" = none to watch.
  std::string policy_text; ///< Of that file, as the job began with it.
  std::int64_t swap_timeout_us = 5'000'000;
};

/// Open from construction to destruction. A door that cannot be opened is said in the log, and the
/// job runs without it.
///
///   Thread   one owner; @pre the system that the desk belongs to outlives it
class JobControl {
public:
  JobControl(const JobControlOptions& options, std::shared_ptr<ControlDesk> desk,
             std::shared_ptr<const sched::PolicyRegistry> registry);
  ~JobControl();

private:
  std::unique_ptr<ControlSocket> socket_;
  std::unique_ptr<PolicyWatch> watch_;
};

} // namespace troupe::app
