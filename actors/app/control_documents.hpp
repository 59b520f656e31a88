// What the policy commands and `troupe top` print with --json, as text of one line.

#pragma once

#include "actors/app/config_loader.hpp"
#include "actors/app/control_desk.hpp"
#include "actors/app/policy_text.hpp"
#include "actors/app/top_board.hpp"
#include "actors/manager_facts.hpp"
#include "schedulers/registry/policy_registry.hpp"
#include "schedulers/stage/manager_stage.hpp"

#include <string>
#include <vector>

namespace troupe::app {

/// `policy show`. Pure.
std::string show_document(const actors::ManagerView& view, const sched::PolicyRegistry& registry);

/// `policy check`: {"ok", "errors"}. Pure.
std::string check_document(const std::vector<ConfigError>& errors);

/// `policy diff`: {"equal", "a", "b", "differences": [{"key", "a", "b"}]}; null for no value. Pure.
std::string diff_document(const sched::PolicySet& a, const sched::PolicySet& b,
                          const sched::PolicyRegistry& registry);

/// `policy swap`, shadow, canary, promote, rollback: {"ok", "epoch", "name", "reason"}. Pure.
std::string ended_document(const sched::SwapEnded& ended);

/// A swap that was refused before it began: the same, with what is wrong. Pure.
std::string refused_document(const actors::ManagerView& view,
                             const std::vector<ConfigError>& errors);

/// `policy history`; "to_us" of the live set is null. Pure.
std::string history_document(const actors::ManagerView& view);

/// Where the ledger lies: {"folder", "next_number", "at_us"}; folder null when none is kept. Pure.
std::string ledger_document(const LedgerPlace& place);

/// `troupe top`. Pure.
std::string top_document(const TopSample& top, const actors::ManagerView& view);

} // namespace troupe::app
