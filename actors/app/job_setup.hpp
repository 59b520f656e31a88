// From arguments and files to a system that can start: configuration, model, policies, text.
//
// Shared by every command that runs requests. Nothing is opened for writing here.

#pragma once

#include "actors/app/commands.hpp"
#include "actors/app/config_loader.hpp"
#include "actors/app/journal.hpp"
#include "actors/app/system_config.hpp"
#include "actors/app/text_desk.hpp"
#include "engine/engine.hpp"
#include "schedulers/core/result.hpp"
#include "schedulers/registry/policy_registry.hpp"
#include "schedulers/registry/policy_set.hpp"

#include <memory>
#include <string>

namespace troupe::app {

/// What the user asked for, checked and read.
struct JobSetup {
  SystemConfig config;
  KeyPlaces places; ///< Of what the configuration gives.
  sched::PolicySet policies;
  std::shared_ptr<const sched::PolicyRegistry> registry;
  engine::ModelFacts model;
  TextOptions text; ///< Without job_id and created_s.
};

/// Reads configuration file, overrides, policy file, model facts, tokenizer and chat format.
///
/// @param model     --model, "" = as configured
/// @param policies  --policies, "" = as configured
Result<JobSetup> set_up(const CommonArguments& common, const std::string& model,
                        const std::string& policies);

/// Every policy that this program knows: those that are built in.
std::shared_ptr<sched::PolicyRegistry> program_policies();

/// What decides the answers of this job, for the journal.
JobIdentity job_identity(const JobSetup& setup);

/// Sends log lines of `level` and above to standard error.
void start_log(const std::string& level);

} // namespace troupe::app
