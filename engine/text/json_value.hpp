// JSON as plain values: keys in the order of the text, integers apart from floats, bounded depth.
//
// The parser behind it stays in one source file; a repeated key keeps its first place and last
// value.

#pragma once

#include "schedulers/core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe::text {

/// Deeper arrays and objects are refused, so that no text can exhaust the stack.
inline constexpr std::size_t kJsonDepthMax = 128;

struct JsonMember;

/// One JSON value. An integer that 64 bits cannot hold is a double, as is -0.
class JsonValue {
public:
  using Array = std::vector<JsonValue>;
  using Object = std::vector<JsonMember>;

  JsonValue() = default;
  template <class T>
  explicit JsonValue(T value) : data_(std::move(value)) {}

  bool is_null() const noexcept { return std::holds_alternative<std::monostate>(data_); }
  bool is_integer() const noexcept {
    return std::holds_alternative<std::int64_t>(data_) ||
           std::holds_alternative<std::uint64_t>(data_);
  }
  bool is_number() const noexcept { return is_integer() || real_or_null() != nullptr; }

  /// The content when it is of that kind, else null.
  const bool* boolean() const noexcept { return std::get_if<bool>(&data_); }
  const std::int64_t* negative() const noexcept { return std::get_if<std::int64_t>(&data_); }
  const std::uint64_t* natural() const noexcept { return std::get_if<std::uint64_t>(&data_); }
  const double* real_or_null() const noexcept { return std::get_if<double>(&data_); }
  const std::string* string() const noexcept { return std::get_if<std::string>(&data_); }
  const Array* array() const noexcept { return std::get_if<Array>(&data_); }
  const Object* object() const noexcept { return std::get_if<Object>(&data_); }
  Array* array() noexcept { return std::get_if<Array>(&data_); }
  Object* object() noexcept { return std::get_if<Object>(&data_); }

  /// Any number as a double. @pre is_number()
  double number() const noexcept;

  /// Member of an object, or null when there is none or this is no object.
  const JsonValue* find(std::string_view key) const noexcept;

  /// "null", "a boolean", "a number", "a string", "an array", "an object".
  std::string_view kind_name() const noexcept;

private:
  /// Negative integers are std::int64_t, all others std::uint64_t.
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array,
               Object>
      data_;
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

/// Parses one JSON text. Errors: parse_error with line, column and what was expected.
Result<JsonValue> parse_json(std::string_view text);

/// The same; `repeated` is the path of the first key that stands twice in one object, such as
/// "messages[0].role", and empty when there is none.
Result<JsonValue> parse_json(std::string_view text, std::string& repeated);

/// Spells a value as Python's json.dumps(ensure_ascii=False) does: ", " and ": " between, floats as
/// repr prints them. Pure.
std::string python_json(const JsonValue& value);

/// Appends `text` escaped as python_json escapes strings, without quotes.
void append_json_escaped(std::string_view text, std::string& out);

} // namespace troupe::text
