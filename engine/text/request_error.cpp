#include "engine/text/request_error.hpp"

#include "engine/text/json_value.hpp"
#include "schedulers/core/printable.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace troupe::text {
namespace {

constexpr std::size_t kNameBytesShown = 64;

std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

/// A number for a message: integers without a point.
std::string shown(double value) {
  const JsonValue spelled(value);
  std::string text = python_json(spelled);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

} // namespace

RequestError wrong_type(const std::string& path, const JsonValue& found,
                        std::string_view expected) {
  std::string message = path.empty() ? "the body" : "`" + path + "`";
  message.append(" is ").append(found.kind_name()).append(", expected ").append(expected);
  return {400, message, path, "invalid_type"};
}

RequestError wrong_value(const std::string& path, const std::string& message) {
  return {400, "`" + path + "` " + message, path, "invalid_value"};
}

RequestError missing_field(const std::string& path, std::string_view expected) {
  return {400, "`" + path + "` is missing, expected " + std::string(expected), path,
          "missing_required_parameter"};
}

RequestError unsupported_value(const std::string& path, const std::string& message) {
  return {400, "`" + path + "` " + message, path, "unsupported_value"};
}

RequestError unsupported_field(const std::string& path, const std::string& message) {
  return {400, "`" + path + "` " + message, path, "unsupported_parameter"};
}

RequestError repeated_field(const std::string& path) {
  const std::string shown = printable(path, 2 * kNameBytesShown);
  return {400, "`" + shown + "` stands twice in one object, expected once; remove one of them",
          shown, "duplicate_parameter"};
}

RequestError unknown_field(const std::string& path, std::string_view name,
                           std::span<const std::string_view> known) {
  const std::string full = path_of(path, name);
  return {400,
          "unknown field `" + full + "`; the nearest known field is `" +
              path_of(path, nearest_name(name, known)) + "`",
          full, "unknown_parameter"};
}

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known) {
  name = name.substr(0, kNameBytesShown); // Bounds the cost; names are shorter than that.
  std::string_view best;
  std::size_t best_edits = std::numeric_limits<std::size_t>::max();
  for (const std::string_view candidate : known) {
    const std::size_t count = edits(name, candidate);
    if (count < best_edits) {
      best_edits = count;
      best = candidate;
    }
  }
  return best;
}

std::string path_of(const std::string& parent, std::string_view name) {
  std::string path = parent;
  if (!path.empty()) path += '.';
  return path.append(printable(name, kNameBytesShown)); // It may be a key of the client's.
}

std::string path_of(const std::string& parent, std::size_t index) {
  std::string path = parent;
  return path.append(1, '[').append(std::to_string(index)).append(1, ']');
}

std::string found_and_expected(const JsonValue& found, std::string_view expected) {
  const std::string json = printable(python_json(found), kNameBytesShown);
  return "is " + json + ", expected " + std::string(expected);
}

Refusal read_string(const std::string& path, const JsonValue& value, std::string& out) {
  const std::string* text = value.string();
  if (text == nullptr) return wrong_type(path, value, "a string");
  out = *text;
  return std::nullopt;
}

Refusal read_bool(const std::string& path, const JsonValue& value, bool& out) {
  const bool* boolean = value.boolean();
  if (boolean == nullptr) return wrong_type(path, value, "true or false");
  out = *boolean;
  return std::nullopt;
}

Refusal read_number(const std::string& path, const JsonValue& value, double low, double high,
                    double& out) {
  if (!value.is_number()) return wrong_type(path, value, "a number");
  out = value.number();
  if (out < low || out > high) {
    return wrong_value(path, "is " + shown(out) + ", expected a number from " + shown(low) +
                                 " to " + shown(high));
  }
  return std::nullopt;
}

Refusal read_integer(const std::string& path, const JsonValue& value, std::int64_t low,
                     std::int64_t high, std::int64_t& out) {
  if (!value.is_number()) return wrong_type(path, value, "an integer");
  const std::uint64_t* natural = value.natural();
  const std::int64_t* negative = value.negative();
  const bool fits = natural != nullptr && *natural <= static_cast<std::uint64_t>(
                                                          std::numeric_limits<std::int64_t>::max());
  if (fits) out = static_cast<std::int64_t>(*natural);
  if (negative != nullptr) out = *negative;
  if ((!fits && negative == nullptr) || out < low || out > high) {
    return wrong_value(path, "is " + python_json(value) + ", expected an integer from " +
                                 std::to_string(low) + " to " + std::to_string(high));
  }
  return std::nullopt;
}

} // namespace troupe::text
