// One line of a batch file: its envelope in, output and error lines out, in OpenAI's form.
//
// The body stays text: whoever runs the request parses it. All bytes written here follow from the
// job and the line alone, so a resumed job writes what the undisturbed one would have written.

#pragma once

#include "engine/text/request_body.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::app {

/// Longest custom_id, in bytes of UTF-8.
inline constexpr std::size_t kCustomIdBytesMax = 512;

/// A line that could be read.
struct BatchLine {
  std::string custom_id; ///< 1..kCustomIdBytesMax bytes, UTF-8.
  text::Endpoint endpoint = text::Endpoint::chat_completions;
  std::string body; ///< JSON text of an object, byte for byte as in the file.
};

/// Why a line could not be read.
struct LineError {
  std::optional<std::string> custom_id; ///< When it could be read.
  std::string code;    ///< invalid_json, invalid_utf8, line_too_long, missing_field, invalid_field,
                       ///< unknown_field, duplicate_field, invalid_custom_id, duplicate_custom_id.
  std::string message; ///< What was found, what is expected.
};

/// A line or the reason why not.
struct BatchLineOutcome {
  BatchLine line; ///< Its custom_id is set whenever it could be read.
  std::optional<LineError> error;

  bool ok() const noexcept { return !error.has_value(); }
};

/// Parses the envelope of one line. Pure. Hostile input gives an error, never a crash.
BatchLineOutcome parse_batch_line(std::string_view text);

/// The error of the later of two lines with one custom_id; both lines are named.
LineError duplicate_custom_id_error(const std::string& custom_id, std::int64_t line_number,
                                    std::int64_t first_line_number);

/// The error of a line above the limit.
LineError line_too_long_error(std::int64_t length, std::int64_t line_bytes_max);

/// Names of one line, derived from the job and the custom_id; for a line without one, or with one
/// that is not its own, from the line number too.
struct LineIds {
  std::string id;         ///< "batch_req_" and 24 hex digits.
  std::string request_id; ///< "req_" and 24 hex digits.
};
LineIds line_ids(std::string_view job_id, std::string_view custom_id);
LineIds line_ids(std::string_view job_id, std::int64_t line_number);

/// The id of a response body: "chatcmpl-" or "cmpl-" and 24 hex digits of job and custom_id.
std::string response_id(std::string_view job_id, std::string_view custom_id,
                        text::Endpoint endpoint);

/// {"id","custom_id","response":{"status_code","request_id","body"},"error":null}, without newline.
/// Status 200 belongs into the output, any other into the errors. `body_json` is inserted as it is.
std::string response_line(std::string_view job_id, std::string_view custom_id,
                          std::int32_t status_code, std::string_view body_json);

/// {"id","custom_id","line","response":null,"error":{"code","message"}}, without newline.
std::string unreadable_line(std::string_view job_id, std::int64_t line_number,
                            const LineError& error);

} // namespace troupe::app
