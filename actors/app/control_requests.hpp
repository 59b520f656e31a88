// One line of the control socket → one line of answer: which request it is, and what it asks for.
//
// A request is {"command": NAME, ...}; an answer {"ok": true, "result": DOCUMENT} or
// {"ok": false, "error": {"code", "message"}}. The documents are those of `troupe policy --json`.

#pragma once

#include "actors/app/control_desk.hpp"
#include "actors/app/control_worker.hpp"
#include "schedulers/registry/policy_registry.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::app {

/// The answer when it is there, without newline; asked again until then, never for longer than the
/// requests allow.
using ControlReply = std::function<std::optional<std::string>(std::int64_t now_us)>;

/// {"ok": false, "error": ...} as one line. Pure.
std::string control_error(std::string_view code, std::string_view message);

class ControlRequests {
public:
  /// @param answer_us  how long a swap may take before its asker is told to look again
  ControlRequests(std::shared_ptr<ControlDesk> desk,
                  std::shared_ptr<const sched::PolicyRegistry> registry, std::int64_t answer_us);

  /// Takes any bytes. What may have to look at a library is done on a thread of its own, so that
  /// other requests are answered meanwhile. Thread: one owner.
  ControlReply take(std::string_view line);

private:
  std::shared_ptr<ControlDesk> desk_;
  std::shared_ptr<const sched::PolicyRegistry> registry_;
  std::int64_t answer_us_;
  std::shared_ptr<ControlWorker> worker_; ///< Goes first: its work uses what stands above.
};

} // namespace troupe::app
