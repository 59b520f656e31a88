// Asks a running system to write what it decided so far, and where that lies.

#pragma once

#include "actors/app/control_desk.hpp"
#include "schedulers/core/result.hpp"

#include <string>

namespace troupe::app {

/// The folder can be read up to `next_number` when this returns.
///
/// @param socket  path of --connect; "" = the one that answers in the working directory
///
/// Errors: not_found (no system answers, or it keeps no ledger), with what to do; io_error.
Result<LedgerPlace> ask_ledger(const std::string& socket);

} // namespace troupe::app
