// Implementation of typed JSON access.

#include "engine/model/json_fields.hpp"

#include "engine/model/file.hpp"
#include "engine/model/json_keys.hpp"
#include "schedulers/core/printable.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace troupe::engine {

using nlohmann::json;

namespace {

constexpr std::size_t kShownChars = 60;
constexpr const char* kRepair = "; repair the file or fetch it again";

std::string shown(const json& value) {
  return printable(value.dump(-1, ' ', true, json::error_handler_t::replace), kShownChars);
}

std::string plain_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

/// Looks at the events of a text before anything is built from it: depth, repeated keys, syntax.
class Checker : public nlohmann::json_sax<json> {
public:
  std::string problem;        ///< With its place; empty while all is well.
  std::size_t error_byte = 0; ///< From 1; 0 when the problem is no syntax error.

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (keys_.take(name)) return true;
    problem = keys_.problem();
    return false;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    no_json_at(position);
    return false;
  }

  void no_json_at(std::size_t position) {
    problem = "is no valid JSON, expected one object";
    error_byte = position;
  }

private:
  bool open() {
    if (keys_.open()) return true;
    problem = keys_.problem();
    return false;
  }
  bool close() {
    keys_.close();
    return true;
  }

  JsonKeys keys_;
};

std::string place_of(const std::string& text, std::size_t byte) {
  const std::string_view before = std::string_view(text).substr(0, byte - 1);
  return ":" + std::to_string(1 + std::count(before.begin(), before.end(), '\n')) + ": byte " +
         std::to_string(byte);
}

} // namespace

struct JsonDocument::State {
  std::string path;
  json root;
  Status status;
};

Result<JsonDocument> JsonDocument::read(const std::string& path, std::int64_t bytes_max) {
  auto text = read_text_file(path, bytes_max);
  if (!text) return text.error();
  Checker checker;
  // The JSON reader takes a zero byte for the end of its input.
  const std::size_t zero = text->find('\0');
  if (zero != std::string::npos) checker.no_json_at(zero + 1);
  if (zero != std::string::npos || !json::sax_parse(*text, &checker)) {
    const std::string place = checker.error_byte > 0 ? place_of(*text, checker.error_byte) : "";
    return Error{ErrorCode::bad_checkpoint, path + place + ": " + checker.problem + kRepair};
  }
  JsonDocument document;
  document.state_ = std::make_shared<State>();
  document.state_->path = path;
  document.state_->root = json::parse(*text, nullptr, false);
  const json& root = document.state_->root;
  if (!root.is_object()) {
    return Error{ErrorCode::bad_checkpoint,
                 path + ": is " + shown(root) + ", expected an object" + kRepair};
  }
  return document;
}

JsonObject JsonDocument::root() const { return {this, &state_->root, ""}; }
const std::string& JsonDocument::path() const { return state_->path; }
const Status& JsonDocument::status() const { return state_->status; }

void JsonObject::fail(const std::string& key, const std::string& what, ErrorCode code) const {
  Status& status = document_->state_->status;
  if (!status.ok()) return;
  const char* advice =
      code == ErrorCode::unsupported ? "; take a checkpoint of the supported kind" : kRepair;
  status = {code, document_->state_->path + ": " + prefix_ + key + ": " + what + advice};
}

const json* JsonObject::at(const char* key) const {
  if (value_ == nullptr) return nullptr;
  const auto found = value_->find(key);
  return found == value_->end() || found->is_null() ? nullptr : &*found;
}

bool JsonObject::has(const char* key) const { return at(key) != nullptr; }

const json* JsonObject::needed(const char* key, bool required, const char* expected) const {
  const json* value = at(key);
  if (value == nullptr && required && value_ != nullptr) {
    fail(key, std::string("is missing, expected ") + expected);
  }
  return value;
}

std::int64_t JsonObject::checked(const char* key, const json& value, std::int64_t min,
                                 std::int64_t max) const {
  const bool whole = value.is_number_integer();
  const bool fits =
      whole && !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX);
  if (fits) {
    const auto number = value.get<std::int64_t>();
    if (number >= min && number <= max) return number;
  }
  fail(key, "is " + shown(value) + ", expected a whole number from " + std::to_string(min) +
                " to " + std::to_string(max));
  return min;
}

std::int64_t JsonObject::integer(const char* key, std::int64_t min, std::int64_t max,
                                 std::optional<std::int64_t> fallback) const {
  const json* value = needed(key, !fallback, "a whole number");
  return value == nullptr ? fallback.value_or(min) : checked(key, *value, min, max);
}

double JsonObject::number(const char* key, double min, double max,
                          std::optional<double> fallback) const {
  const json* value = needed(key, !fallback, "a number");
  if (value == nullptr) return fallback.value_or(min);
  if (value->is_number()) {
    const auto number = value->get<double>();
    if (number >= min && number <= max) return number;
  }
  fail(key, "is " + shown(*value) + ", expected a number from " + plain_number(min) + " to " +
                plain_number(max));
  return min;
}

bool JsonObject::boolean(const char* key, bool fallback) const {
  const json* value = at(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  fail(key, "is " + shown(*value) + ", expected true or false");
  return fallback;
}

std::string JsonObject::text(const char* key, std::optional<std::string> fallback) const {
  const json* value = needed(key, !fallback, "text");
  if (value == nullptr) return fallback.value_or("");
  if (value->is_string()) return value->get<std::string>();
  fail(key, "is " + shown(*value) + ", expected text");
  return fallback.value_or("");
}

std::vector<std::int64_t> JsonObject::integers(const char* key, std::int64_t min,
                                               std::int64_t max) const {
  const json* value = needed(key, true, "a list of whole numbers");
  std::vector<std::int64_t> list;
  if (value == nullptr) return list;
  if (!value->is_array()) {
    fail(key, "is " + shown(*value) + ", expected a list of whole numbers");
    return list;
  }
  list.reserve(value->size());
  for (const json& item : *value)
    list.push_back(checked(key, item, min, max));
  return list;
}

std::vector<std::int64_t> JsonObject::one_or_more(const char* key, std::int64_t min,
                                                  std::int64_t max) const {
  const json* value = at(key);
  if (value != nullptr && !value->is_array()) return {checked(key, *value, min, max)};
  return integers(key, min, max);
}

std::vector<std::vector<std::int64_t>> JsonObject::rows(const char* key, std::int64_t min,
                                                        std::int64_t max) const {
  const json* value = needed(key, true, "a list of lists of whole numbers");
  std::vector<std::vector<std::int64_t>> all;
  if (value == nullptr) return all;
  for (const json& row : *value) {
    if (!value->is_array() || !row.is_array()) break;
    all.emplace_back();
    for (const json& item : row)
      all.back().push_back(checked(key, item, min, max));
  }
  if (!value->is_array() || all.size() != value->size()) {
    fail(key, "is " + shown(*value) + ", expected a list of lists of whole numbers");
  }
  return all;
}

JsonObject JsonObject::object(const char* key) const {
  const json* value = needed(key, true, "an object");
  if (value != nullptr && !value->is_object()) {
    fail(key, "is " + shown(*value) + ", expected an object");
    value = nullptr;
  }
  return {document_, value, prefix_ + key + "."};
}

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> names;
  if (value_ == nullptr) return names;
  for (const auto& item : value_->items())
    names.push_back(item.key());
  return names;
}

} // namespace troupe::engine
