// One line of the control socket → one line of answer: which request it is, and what it asks for.
//
// A request is {"command": NAME, ...}; an answer {"ok": true, "result": DOCUMENT} or
// {"ok": false, "error": {"code", "message"}}. The documents are those of `troupe policy --json`.
// An empty line is passed over.

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

/// Answers requests:
///
///   show, history, top  the live set, what was live, the board of `troupe top`
///   ledger              its folder, and how far it is written
///   check, diff         of "text", a policy file, which messages call "file"; without a text, of
///                       the file at the path "file"
///   swap                to the set of "text" or "file"
///   shadow              asks "policy" beside the live one of "kind"
///   canary              "policy" decides for "share" (0.001 to 1) of the sessions of "kind"
///   promote             what is shadowed or the canary becomes live
///   rollback            to the set before
///
/// All that swap but promote take a "reason" for the history. "ok" says that the request was
/// taken. Whether a set came to be live stands in the document: they answer {"ok", "epoch",
/// "name", "reason"} as "result", with "ok": false and why when it was refused.
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
