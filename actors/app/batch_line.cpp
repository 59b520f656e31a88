#include "actors/app/batch_line.hpp"

#include "actors/app/batch_files.hpp"
#include "actors/app/response_body.hpp"
#include "schedulers/core/options.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <set>

namespace troupe::app {

namespace {

constexpr std::string_view kChatUrl = "/v1/chat/completions";
constexpr std::string_view kCompletionsUrl = "/v1/completions";

/// Counts the bytes that the parser has taken, so that the body can be cut out of the line.
class CountingIterator {
public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator() = default;
  CountingIterator(const char* at, const char** seen) : at_(at), seen_(seen) {}

  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    if (seen_ != nullptr) {
      *seen_ = at_;
    }
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

private:
  const char* at_ = nullptr;
  const char** seen_ = nullptr;
};

enum class Field : std::uint8_t { custom_id, method, url, body, none };

/// What a field of the envelope holds.
struct FieldValue {
  bool is_present = false;
  std::string kind; ///< "a string", "a number", ...
  std::string text; ///< The string, or the raw text of the object.
};

/// Receives the envelope; depth 1 is the line's object.
class EnvelopeReader : public nlohmann::json::json_sax_t {
public:
  explicit EnvelopeReader(const char* const* seen) : seen_(seen) {}

  bool null() override { return scalar("null", {}); }
  bool boolean(bool) override { return scalar("a boolean", {}); }
  bool number_integer(number_integer_t) override { return scalar("a number", {}); }
  bool number_unsigned(number_unsigned_t) override { return scalar("a number", {}); }
  bool number_float(number_float_t, const string_t&) override { return scalar("a number", {}); }
  bool string(string_t& text) override { return scalar("a string", text); }
  bool binary(binary_t&) override { return scalar("binary data", {}); }

  bool start_object(std::size_t) override { return open("an object"); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open("an array"); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (depth_ != 1) {
      return true;
    }
    static constexpr std::array<std::string_view, 4> kNames = {"custom_id", "method", "url",
                                                               "body"};
    field_ = Field::none;
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      if (name == kNames[i]) {
        field_ = static_cast<Field>(i);
      }
    }
    if (field_ == Field::none) {
      if (unknown.empty()) {
        unknown = name;
      }
    } else if (value().is_present && duplicate.empty()) {
      duplicate = name;
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    error_position = position;
    error_token = token;
    error_text = error.what();
    return false;
  }

  const FieldValue& of(Field field) const { return values_[static_cast<std::size_t>(field)]; }

  std::string root_kind;
  std::string unknown;
  std::string duplicate;
  std::size_t error_position = 0;
  std::string error_token;
  std::string error_text;

private:
  FieldValue& value() { return values_[static_cast<std::size_t>(field_)]; }

  void begin_value(const char* kind, std::string text) {
    if (depth_ == 0) {
      root_kind = kind;
    }
    if (depth_ != 1 || field_ == Field::none || root_kind != "an object") {
      return;
    }
    if (value().is_present) {
      return;
    }
    value() = {true, kind, std::move(text)};
  }
  bool scalar(const char* kind, const std::string& text) {
    begin_value(kind, depth_ <= 1 ? text : std::string());
    return true;
  }
  bool open(const char* kind) {
    const bool is_first = depth_ == 1 && field_ == Field::body && !value().is_present;
    begin_value(kind, {});
    if (is_first) {
      body_begin_ = *seen_ - 1;
    }
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    if (depth_ == 1 && body_begin_ != nullptr) {
      values_[static_cast<std::size_t>(Field::body)].text.assign(body_begin_, *seen_);
      body_begin_ = nullptr;
    }
    return true;
  }

  const char* const* seen_;
  const char* body_begin_ = nullptr;
  std::int64_t depth_ = 0;
  Field field_ = Field::none;
  std::array<FieldValue, 4> values_;
};

LineError make_error(std::string code, std::string message) {
  return {std::nullopt, std::move(code), std::move(message)};
}

/// A piece of the line for a message, safe to show.
std::string shown(std::string_view text) {
  constexpr std::size_t kShown = 60;
  if (text.size() <= kShown) {
    return json_string(text);
  }
  return json_string(text.substr(0, kShown)) + "...";
}

LineError syntax_error(const EnvelopeReader& reader, std::string_view text) {
  const std::size_t byte = std::min(reader.error_position, text.size() + 1);
  if (reader.error_text.find("UTF-8") != std::string::npos) {
    return make_error("invalid_utf8", "the line is not UTF-8: broken bytes at byte " +
                                          std::to_string(byte) + "; save the file as UTF-8");
  }
  if (reader.error_text.find("out_of_range") != std::string::npos) {
    return make_error("invalid_json",
                      "the number " + shown(reader.error_token) + " is too large for JSON readers");
  }
  std::string what = "the line is not JSON: at byte " + std::to_string(byte);
  if (byte > text.size()) {
    what += " it ends too early";
  } else {
    const std::size_t from = byte > 20 ? byte - 20 : 0;
    what += " after " + shown(text.substr(from, byte - from)) + " something else was expected";
  }
  return make_error("invalid_json", what + "; a line is one JSON object");
}

/// The first thing wrong with custom_id, if any.
std::optional<LineError> check_custom_id(const FieldValue& field) {
  const std::string expected =
      "expected a string of 1 to " + std::to_string(kCustomIdBytesMax) + " bytes";
  if (!field.is_present) {
    return make_error("missing_field", "custom_id is missing; " + expected);
  }
  if (field.kind != "a string") {
    return make_error("invalid_custom_id", "custom_id is " + field.kind + "; " + expected);
  }
  if (field.text.empty()) {
    return make_error("invalid_custom_id", "custom_id is empty; " + expected);
  }
  if (field.text.size() > kCustomIdBytesMax) {
    return make_error("invalid_custom_id",
                      "custom_id has " + std::to_string(field.text.size()) + " bytes; " + expected);
  }
  return std::nullopt;
}

std::optional<LineError> check_text_field(const FieldValue& field, const std::string& name,
                                          const std::set<std::string>& allowed) {
  std::string expected = "expected ";
  for (const std::string& word : allowed) {
    expected += (word == *allowed.begin() ? "" : " or ") + json_string(word);
  }
  if (!field.is_present) {
    return make_error("missing_field", name + " is missing; " + expected);
  }
  if (field.kind != "a string") {
    return make_error("invalid_field", name + " is " + field.kind + "; " + expected);
  }
  if (!allowed.contains(field.text)) {
    return make_error("invalid_field", name + " is " + shown(field.text) + "; " + expected);
  }
  return std::nullopt;
}

std::optional<LineError> check_envelope(const EnvelopeReader& reader) {
  if (reader.root_kind != "an object") {
    return make_error("invalid_json", "the line is " + reader.root_kind +
                                          "; expected an object with custom_id, method, url, body");
  }
  if (!reader.duplicate.empty()) {
    return make_error("duplicate_field", reader.duplicate + " stands twice in the line; once is "
                                                            "expected");
  }
  if (auto error = check_custom_id(reader.of(Field::custom_id))) {
    return error;
  }
  if (!reader.unknown.empty()) {
    const std::string near = nearest_name(reader.unknown, {"custom_id", "method", "url", "body"});
    return make_error("unknown_field",
                      "the field " + shown(reader.unknown) + " is unknown; " +
                          (near.empty() ? "known are custom_id, method, url, body"
                                        : "did you mean " + json_string(near) + "?"));
  }
  if (auto error = check_text_field(reader.of(Field::method), "method", {"POST"})) {
    return error;
  }
  if (auto error = check_text_field(reader.of(Field::url), "url",
                                    {std::string(kChatUrl), std::string(kCompletionsUrl)})) {
    return error;
  }
  const FieldValue& body = reader.of(Field::body);
  if (!body.is_present) {
    return make_error("missing_field", "body is missing; expected an object, the request");
  }
  if (body.kind != "an object") {
    return make_error("invalid_field",
                      "body is " + body.kind + "; expected an object, the request");
  }
  return std::nullopt;
}

std::string short_hash(std::string_view kind, std::string_view job_id, std::string_view rest) {
  std::string key;
  key.reserve(kind.size() + job_id.size() + rest.size() + 2);
  key.append(kind).append(1, '\0').append(job_id).append(1, '\0').append(rest);
  return hex(digest_of(key)).substr(0, 24);
}

} // namespace

BatchLineOutcome parse_batch_line(std::string_view text) {
  BatchLineOutcome outcome;
  const char* seen = text.data();
  EnvelopeReader reader(&seen);
  const CountingIterator begin(text.data(), &seen);
  const CountingIterator end(text.data() + text.size(), nullptr);
  // The JSON reader takes a zero byte for the end of its input.
  const std::size_t zero = text.find('\0');
  if (zero != std::string_view::npos) {
    outcome.error =
        make_error("invalid_json", "the line is not JSON: a zero byte at byte " +
                                       std::to_string(zero + 1) + "; a line is one JSON object");
  } else if (!nlohmann::json::sax_parse(begin, end, &reader)) {
    outcome.error = syntax_error(reader, text);
  } else {
    outcome.error = check_envelope(reader);
  }
  const FieldValue& custom_id = reader.of(Field::custom_id);
  if (custom_id.kind == "a string" && reader.duplicate != "custom_id" &&
      !check_custom_id(custom_id)) {
    outcome.line.custom_id = custom_id.text;
    if (outcome.error) {
      outcome.error->custom_id = custom_id.text;
    }
  }
  if (outcome.error) {
    return outcome;
  }
  outcome.line.endpoint = reader.of(Field::url).text == kChatUrl ? text::Endpoint::chat_completions
                                                                 : text::Endpoint::completions;
  outcome.line.body = reader.of(Field::body).text;
  return outcome;
}

LineError duplicate_custom_id_error(const std::string& custom_id, std::int64_t line_number,
                                    std::int64_t first_line_number) {
  return {custom_id, "duplicate_custom_id",
          "custom_id " + shown(custom_id) + " of line " + std::to_string(line_number) +
              " was used in line " + std::to_string(first_line_number) +
              " already; each line needs its own"};
}

LineError line_too_long_error(std::int64_t length, std::int64_t line_bytes_max) {
  return make_error("line_too_long",
                    "the line has " + std::to_string(length) + " bytes; at most " +
                        std::to_string(line_bytes_max) +
                        " are allowed (limits.line_bytes_max); shorten it or raise the limit");
}

LineIds line_ids(std::string_view job_id, std::string_view custom_id) {
  return {"batch_req_" + short_hash("line", job_id, custom_id),
          "req_" + short_hash("request", job_id, custom_id)};
}

LineIds line_ids(std::string_view job_id, std::int64_t line_number) {
  const std::string rest = std::to_string(line_number);
  return {"batch_req_" + short_hash("number", job_id, rest),
          "req_" + short_hash("number request", job_id, rest)};
}

std::string response_id(std::string_view job_id, std::string_view custom_id,
                        text::Endpoint endpoint) {
  const bool is_chat = endpoint == text::Endpoint::chat_completions;
  return (is_chat ? "chatcmpl-" : "cmpl-") + short_hash("response", job_id, custom_id);
}

std::string response_line(std::string_view job_id, std::string_view custom_id,
                          std::int32_t status_code, std::string_view body_json) {
  const LineIds ids = line_ids(job_id, custom_id);
  std::string out;
  out.reserve(body_json.size() + custom_id.size() + 200);
  out.append(R"({"id":")").append(ids.id).append(R"(","custom_id":)");
  out.append(json_string(custom_id)).append(R"(,"response":{"status_code":)");
  out.append(std::to_string(status_code)).append(R"(,"request_id":")").append(ids.request_id);
  out.append(R"(","body":)").append(body_json).append(R"(},"error":null})");
  return out;
}

std::string unreadable_line(std::string_view job_id, std::int64_t line_number,
                            const LineError& error) {
  std::string out;
  out.append(R"({"id":")").append(line_ids(job_id, line_number).id).append(R"(","custom_id":)");
  out.append(error.custom_id ? json_string(*error.custom_id) : "null");
  out.append(R"(,"line":)").append(std::to_string(line_number));
  out.append(R"(,"response":null,"error":{"code":)").append(json_string(error.code));
  out.append(R"(,"message":)").append(json_string(error.message)).append("}}");
  return out;
}

} // namespace troupe::app
