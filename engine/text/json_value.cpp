// The one place that includes the JSON library.

#include "engine/text/json_value.hpp"

#include "schedulers/core/hex.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <charconv>
#include <optional>
#include <unordered_map>
#include <utility>

namespace troupe::text {
namespace {

constexpr std::size_t kMessageBytesMax = 300;

/// Cuts a library message to a readable length, at a character's start.
std::string shortened(std::string_view message) {
  if (message.starts_with('[')) {
    const auto end = message.find("] ");
    if (end != std::string_view::npos) message.remove_prefix(end + 2);
  }
  if (message.size() <= kMessageBytesMax) return std::string(message);
  std::size_t end = kMessageBytesMax;
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0) == 0x80)
    --end;
  return std::string(message.substr(0, end)) + " ...";
}

/// Keeps of every key its first place and its last value.
///
/// @return the first key that stood twice, or nothing
std::optional<std::string> drop_repeated_keys(JsonValue::Object& members) {
  std::unordered_map<std::string_view, std::size_t> first;
  first.reserve(members.size());
  std::vector<std::pair<std::size_t, std::size_t>> repeats; // place of the first, of the later
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto [it, fresh] = first.emplace(members[i].key, i);
    if (!fresh) repeats.emplace_back(it->second, i);
  }
  if (repeats.empty()) return std::nullopt;
  std::string first_repeated = members[repeats.front().second].key;
  std::vector<bool> drop(members.size());
  for (const auto& [to, from] : repeats) {
    members[to].value = std::move(members[from].value);
    drop[from] = true;
  }
  JsonValue::Object kept;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (!drop[i]) kept.push_back(std::move(members[i]));
  }
  members = std::move(kept);
  return first_repeated;
}

/// Builds JsonValues from the library's events.
class Builder : public nlohmann::json_sax<nlohmann::json> {
public:
  bool null() override { return add(JsonValue{}); }
  bool boolean(bool value) override { return add(JsonValue(value)); }
  bool number_integer(number_integer_t value) override {
    return value == 0 ? add(JsonValue(-0.0)) : add(JsonValue(std::int64_t{value}));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return add(JsonValue(std::uint64_t{value}));
  }
  bool number_float(number_float_t value, const string_t&) override {
    return add(JsonValue(value));
  }
  bool string(string_t& value) override { return add(JsonValue(std::move(value))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(JsonValue(JsonValue::Object{})); }
  bool start_array(std::size_t) override { return open(JsonValue(JsonValue::Array{})); }
  bool key(string_t& value) override {
    keys_.back() = std::move(value);
    return true;
  }
  bool end_object() override {
    JsonValue::Object& members = *open_.back().object();
    if (members.size() > 1) {
      const auto repeats = drop_repeated_keys(members);
      if (repeats && repeated_.empty()) repeated_ = path_to(*repeats);
    }
    return close();
  }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::json::exception& error) override {
    message_ = shortened(error.what());
    return false;
  }

  JsonValue take() { return std::move(root_); }
  const std::string& message() const { return message_; }
  std::string take_repeated() { return std::move(repeated_); }

private:
  /// Path of a member of the innermost open object.
  std::string path_to(const std::string& key) const {
    std::string path;
    for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
      if (const JsonValue::Array* items = open_[i].array()) {
        path += '[' + std::to_string(items->size()) + ']';
      } else {
        path += (path.empty() ? "" : ".") + keys_[i];
      }
    }
    return path + (path.empty() ? "" : ".") + key;
  }

  bool open(JsonValue container) {
    if (open_.size() == kJsonDepthMax) {
      message_ = "arrays and objects are nested deeper than " + std::to_string(kJsonDepthMax);
      return false;
    }
    open_.push_back(std::move(container));
    keys_.emplace_back();
    return true;
  }

  bool close() {
    JsonValue done = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    return add(std::move(done));
  }

  bool add(JsonValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (JsonValue::Array* items = open_.back().array()) {
      items->push_back(std::move(value));
    } else {
      open_.back().object()->push_back({std::move(keys_.back()), std::move(value)});
    }
    return true;
  }

  JsonValue root_;
  std::vector<JsonValue> open_;
  std::vector<std::string> keys_; ///< Of each open container, the key its next value belongs to.
  std::string message_;
  std::string repeated_;
};

/// A finite double as Python's repr: shortest digits, an exponent below 1e-4 and from 1e16 on.
std::string python_float(double value) {
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific)
                       .ptr;
  std::string_view text(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  std::string out;
  if (text.front() == '-') {
    out += '-';
    text.remove_prefix(1);
  }
  const auto e = text.find('e');
  std::string digits(text.substr(0, e));
  if (digits.size() > 1) digits.erase(1, 1);
  int exponent = 0;
  std::string_view power = text.substr(e + 1);
  if (power.front() == '+') power.remove_prefix(1);
  std::from_chars(power.data(), power.data() + power.size(), exponent);
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (digits.size() > 1) out.append(1, '.').append(digits, 1);
    const std::string magnitude = std::to_string(exponent < 0 ? -exponent : exponent);
    out += exponent < 0 ? "e-" : "e+";
    if (magnitude.size() < 2) out += '0';
    return out.append(magnitude);
  }
  if (exponent < 0) {
    out += "0.";
    return out.append(static_cast<std::size_t>(-exponent - 1), '0').append(digits);
  }
  const auto whole = static_cast<std::size_t>(exponent + 1);
  if (digits.size() <= whole) {
    return out.append(digits).append(whole - digits.size(), '0').append(".0");
  }
  return out.append(digits, 0, whole).append(1, '.').append(digits, whole);
}

void append_string(std::string_view text, std::string& out) {
  out += '"';
  append_json_escaped(text, out);
  out += '"';
}

void append_value(const JsonValue& value, std::string& out) {
  if (const bool* boolean = value.boolean()) {
    out += *boolean ? "true" : "false";
  } else if (const auto* negative = value.negative()) {
    out += std::to_string(*negative);
  } else if (const auto* natural = value.natural()) {
    out += std::to_string(*natural);
  } else if (const double* real = value.real_or_null()) {
    out += python_float(*real);
  } else if (const std::string* string = value.string()) {
    append_string(*string, out);
  } else if (const JsonValue::Array* items = value.array()) {
    out += '[';
    for (std::size_t i = 0; i < items->size(); ++i) {
      if (i > 0) out += ", ";
      append_value((*items)[i], out);
    }
    out += ']';
  } else if (const JsonValue::Object* members = value.object()) {
    out += '{';
    for (std::size_t i = 0; i < members->size(); ++i) {
      if (i > 0) out += ", ";
      append_string((*members)[i].key, out);
      out += ": ";
      append_value((*members)[i].value, out);
    }
    out += '}';
  } else {
    out += "null";
  }
}

} // namespace

double JsonValue::number() const noexcept {
  if (const auto* value = negative()) return static_cast<double>(*value);
  if (const auto* value = natural()) return static_cast<double>(*value);
  const double* value = real_or_null();
  return value != nullptr ? *value : 0.0;
}

const JsonValue* JsonValue::find(std::string_view key) const noexcept {
  if (const Object* members = object()) {
    for (const JsonMember& member : *members) {
      if (member.key == key) return &member.value;
    }
  }
  return nullptr;
}

std::string_view JsonValue::kind_name() const noexcept {
  if (is_null()) return "null";
  if (boolean() != nullptr) return "a boolean";
  if (is_number()) return "a number";
  if (string() != nullptr) return "a string";
  return array() != nullptr ? "an array" : "an object";
}

Result<JsonValue> parse_json(std::string_view text, std::string& repeated) {
  repeated.clear();
  if (text.starts_with("\xEF\xBB\xBF")) { // The library would skip it.
    return {ErrorCode::parse_error, "the text begins with a byte-order mark"};
  }
  const std::size_t zero = text.find('\0');
  if (zero != std::string_view::npos) { // The library would take it for the end.
    return {ErrorCode::parse_error, "a zero byte at byte " + std::to_string(zero + 1)};
  }
  Builder builder;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    return {ErrorCode::parse_error, builder.message()};
  }
  repeated = builder.take_repeated();
  return builder.take();
}

Result<JsonValue> parse_json(std::string_view text) {
  std::string ignored;
  return parse_json(text, ignored);
}

std::string python_json(const JsonValue& value) {
  std::string out;
  append_value(value, out);
  return out;
}

void append_json_escaped(std::string_view text, std::string& out) {
  for (const char c : text) {
    switch (c) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    case '\b':
      out += "\\b";
      break;
    case '\f':
      out += "\\f";
      break;
    default:
      if (static_cast<unsigned char>(c) < 0x20) {
        append_hex(static_cast<unsigned char>(c), 4, out.append("\\u"));
      } else {
        out += c;
      }
    }
  }
}

} // namespace troupe::text
