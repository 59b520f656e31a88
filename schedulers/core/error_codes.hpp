// Every error code of Troupe in one numbered list, a range for each room.

#pragma once

#include <cstdint>
#include <string_view>

namespace troupe {

/// What went wrong. Numbers are stable: they are written to journals and ledgers.
enum class ErrorCode : std::uint16_t {
  ok = 0,
  // 100: configuration and usage
  bad_argument = 100, ///< A value is out of its documented range or of the wrong type.
  unknown_key = 101,  ///< A key, option or name that nothing knows.
  missing_key = 102,  ///< A required key is absent.
  parse_error = 103,  ///< Text that is not TOML, JSON, UTF-8 or whatever was expected.
  // 200: files and checkpoints
  io_error = 200,       ///< The operating system refused; the message carries its words.
  not_found = 201,      ///< A file or name that must exist does not.
  bad_checkpoint = 202, ///< A tensor is missing, of the wrong shape or dtype, or out of bounds.
  unsupported = 203,    ///< Well formed, but this build cannot do it.
  mismatch = 204,       ///< Two things that must agree do not (journal, input, manifest).
  busy = 205,           ///< Another process holds it.
  // 300: requests
  invalid_request = 300,    ///< The client's request is wrong (HTTP 400).
  never_fits = 301,         ///< Larger than any rank could ever hold.
  rejected = 302,           ///< Refused by admission; may be sent again later.
  deadline = 303,           ///< The request's time ran out.
  cancelled = 304,          ///< Somebody asked to stop it.
  attempts_exhausted = 305, ///< Lost by our fault as often as attempts_max allows.
  // 400: ranks and stages
  no_room = 400,     ///< Not enough kv blocks or state slots now.
  rank_lost = 401,   ///< The rank or its incarnation is gone.
  no_rank = 402,     ///< No rank of the needed role is left.
  no_progress = 403, ///< Nothing happened for no_progress_s.
  stale = 404,       ///< A message of an old attempt, incarnation or lease.
  preempted = 405,   ///< Its room went to an earlier request; it goes on from its token log.
  // 500: engine and transport
  bad_plan = 500,        ///< A StepPlan that breaks the engine's contract.
  engine_failed = 501,   ///< The engine could not run the step.
  bad_digest = 502,      ///< Bytes arrived that are not those that were sent.
  transfer_failed = 503, ///< The transport gave up.
};

/// Stable name of a code, as written in logs, journals and error lines.
std::string_view error_name(ErrorCode code) noexcept;

} // namespace troupe
