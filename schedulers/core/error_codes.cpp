#include "schedulers/core/error_codes.hpp"

namespace troupe {

std::string_view error_name(ErrorCode code) noexcept {
  switch (code) {
  case ErrorCode::ok:
    return "ok";
  case ErrorCode::bad_argument:
    return "bad_argument";
  case ErrorCode::unknown_key:
    return "unknown_key";
  case ErrorCode::missing_key:
    return "missing_key";
  case ErrorCode::parse_error:
    return "parse_error";
  case ErrorCode::io_error:
    return "io_error";
  case ErrorCode::not_found:
    return "not_found";
  case ErrorCode::bad_checkpoint:
    return "bad_checkpoint";
  case ErrorCode::unsupported:
    return "unsupported";
  case ErrorCode::mismatch:
    return "mismatch";
  case ErrorCode::busy:
    return "busy";
  case ErrorCode::invalid_request:
    return "invalid_request";
  case ErrorCode::never_fits:
    return "never_fits";
  case ErrorCode::rejected:
    return "rejected";
  case ErrorCode::deadline:
    return "deadline";
  case ErrorCode::cancelled:
    return "cancelled";
  case ErrorCode::attempts_exhausted:
    return "attempts_exhausted";
  case ErrorCode::no_room:
    return "no_room";
  case ErrorCode::rank_lost:
    return "rank_lost";
  case ErrorCode::no_rank:
    return "no_rank";
  case ErrorCode::no_progress:
    return "no_progress";
  case ErrorCode::stale:
    return "stale";
  case ErrorCode::preempted:
    return "preempted";
  case ErrorCode::bad_plan:
    return "bad_plan";
  case ErrorCode::engine_failed:
    return "engine_failed";
  case ErrorCode::bad_digest:
    return "bad_digest";
  case ErrorCode::transfer_failed:
    return "transfer_failed";
  }
  return "unknown";
}

} // namespace troupe
