// The error a client gets for a body, and the small readers that produce it.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace troupe::text {

class JsonValue;

/// Client error in OpenAI's words; its type is always "invalid_request_error".
struct RequestError {
  std::int32_t status = 400;
  std::string message; ///< What was found, what is expected.
  std::string param;   ///< Path of the field, e.g. "messages[2].content"; empty: the whole body.
  std::string code;    ///< invalid_json, invalid_type, invalid_value, missing_required_parameter,
                       ///< unknown_parameter, unsupported_parameter, unsupported_value,
                       ///< duplicate_parameter.
};

/// Nothing, or why a body is refused.
using Refusal = std::optional<RequestError>;

RequestError wrong_type(const std::string& path, const JsonValue& found, std::string_view expected);
RequestError wrong_value(const std::string& path, const std::string& message);
RequestError missing_field(const std::string& path, std::string_view expected);
RequestError unsupported_value(const std::string& path, const std::string& message);
RequestError unsupported_field(const std::string& path, const std::string& message);

/// A key that stands twice in one object: a reader would have to guess which one is meant.
RequestError repeated_field(const std::string& path);

/// An unknown field, with the nearest of the known ones. @pre known is not empty
RequestError unknown_field(const std::string& path, std::string_view name,
                           std::span<const std::string_view> known);

/// The one of `known` that takes fewest edits from `name`, the first among equals.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known);

/// `parent.name`, or `name` at the top.
std::string path_of(const std::string& parent, std::string_view name);
std::string path_of(const std::string& parent, std::size_t index);

/// "is FOUND, expected EXPECTED" with the value as JSON, cut to a readable length.
std::string found_and_expected(const JsonValue& found, std::string_view expected);

// Readers: take the value when it is of the kind, else refuse.
Refusal read_string(const std::string& path, const JsonValue& value, std::string& out);
Refusal read_bool(const std::string& path, const JsonValue& value, bool& out);
Refusal read_number(const std::string& path, const JsonValue& value, double low, double high,
                    double& out);
Refusal read_integer(const std::string& path, const JsonValue& value, std::int64_t low,
                     std::int64_t high, std::int64_t& out);

} // namespace troupe::text
