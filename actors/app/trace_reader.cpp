#include "actors/app/trace_reader.hpp"

#include "actors/app/batch_files.hpp"
#include "engine/text/json_value.hpp"
#include "schedulers/core/printable.hpp"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

namespace troupe::app {

namespace {

constexpr const char* kCsvHeader = "TIMESTAMP,ContextTokens,GeneratedTokens";
constexpr std::int64_t kTokensMax = 1 << 24;
constexpr double kTimestampMsMax = 9e12;
constexpr std::size_t kShownBytes = 60;
constexpr std::int64_t kLineBytesMax = 1 << 20; ///< A row of a trace may hold what we do not read.

/// What is wrong with one column of a row; `found` is fit for a message.
Error wrong_column(std::string_view column, const std::string& found, const std::string& expected) {
  return {ErrorCode::parse_error,
          fmt::format("{}: found {}, expected {}", column, found, expected)};
}

std::string whole_from(std::int64_t lowest, std::int64_t highest) {
  return fmt::format("a whole number from {} to {}", lowest, highest);
}

std::string shown(const text::JsonValue* value) {
  return value == nullptr ? "nothing" : printable(text::python_json(*value), kShownBytes);
}

/// A count of tokens: a whole number, also when it is written as 12.0.
Result<std::int64_t> tokens_of(const text::JsonValue& line, const char* key, std::int64_t lowest) {
  const text::JsonValue* at = line.find(key);
  const double value = at != nullptr && at->is_number() ? at->number() : -1.0;
  if (value >= static_cast<double>(lowest) && value <= kTokensMax && value == std::floor(value)) {
    return static_cast<std::int64_t>(value);
  }
  return wrong_column(key, shown(at), whole_from(lowest, kTokensMax));
}

Result<std::int64_t> timestamp_us_of(const text::JsonValue& line) {
  const text::JsonValue* at = line.find("timestamp");
  const double at_ms = at != nullptr && at->is_number() ? at->number() : -1.0;
  if (at_ms >= 0.0 && at_ms <= kTimestampMsMax) return std::llround(at_ms * 1000.0);
  return wrong_column("timestamp", shown(at),
                      fmt::format("milliseconds from 0 to {:.0f}", kTimestampMsMax));
}

Result<sim::TraceRow> json_row(const std::string& text) {
  std::string repeated;
  const auto line = text::parse_json(text, repeated);
  if (!line || line->object() == nullptr) {
    return {ErrorCode::parse_error,
            fmt::format("found {}, expected a JSON object with timestamp, input_length and "
                        "output_length, or the header {} on the first line",
                        quote(text), kCsvHeader)};
  }
  if (!repeated.empty()) {
    return {ErrorCode::parse_error,
            printable(repeated, kShownBytes) + ": found twice in one object, expected once"};
  }
  const auto at_us = timestamp_us_of(*line);
  if (!at_us) return at_us.error();
  const auto prompt = tokens_of(*line, "input_length", 1);
  if (!prompt) return prompt.error();
  const auto output = tokens_of(*line, "output_length", 0);
  if (!output) return output.error();
  return sim::TraceRow{*at_us, *prompt, *output};
}

/// Reads a field of numbers and marks from the left.
class FieldScanner {
public:
  explicit FieldScanner(std::string_view text)
      : at_(text.data()), end_(text.data() + text.size()) {}

  /// A number without sign, within `lowest` and `highest`.
  bool number(std::int64_t lowest, std::int64_t highest, std::int64_t& value) {
    const bool is_digit = at_ != end_ && *at_ >= '0' && *at_ <= '9';
    const auto [rest, failed] = std::from_chars(at_, end_, value);
    if (!is_digit || failed != std::errc{} || value < lowest || value > highest) return false;
    at_ = rest;
    return true;
  }
  bool mark(char wanted) {
    if (at_ == end_ || *at_ != wanted) return false;
    ++at_;
    return true;
  }
  /// ".25" as microseconds; digits beyond those are skipped, and none is 0.
  std::int64_t fraction_us() {
    std::int64_t micros = 0;
    if (!mark('.')) return micros;
    for (std::int64_t unit = 100'000; at_ != end_ && *at_ >= '0' && *at_ <= '9'; ++at_, unit /= 10)
      micros += (*at_ - '0') * unit;
    return micros;
  }
  /// Whether the field ends here, but for ".0" where `zeros`.
  bool ends(bool zeros) {
    if (zeros && mark('.')) {
      while (mark('0')) {
      }
    }
    return at_ == end_;
  }

private:
  const char* at_;
  const char* end_;
};

/// YYYY-MM-DD HH:MM:SS[.F] in microseconds since 1970.
std::optional<std::int64_t> us_of_date(std::string_view text) {
  FieldScanner field(text);
  std::int64_t year = 0;
  std::int64_t month = 0;
  std::int64_t day = 0;
  std::int64_t hour = 0;
  std::int64_t minute = 0;
  std::int64_t second = 0;
  const bool is_date = field.number(1970, 9999, year) && field.mark('-') &&
                       field.number(1, 12, month) && field.mark('-') && field.number(1, 31, day) &&
                       field.mark(' ');
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(year)),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  const bool is_time = is_date && date.ok() && field.number(0, 23, hour) && field.mark(':') &&
                       field.number(0, 59, minute) && field.mark(':') &&
                       field.number(0, 60, second);
  const std::int64_t micros = is_time ? field.fraction_us() : 0;
  if (!is_time || !field.ends(false)) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const std::int64_t seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
  return seconds * 1'000'000 + micros;
}

/// The columns of a row, of which those behind the third are not read.
class CsvRow {
public:
  explicit CsvRow(std::string_view text) : rest_(text) {}

  /// The next column, or nothing behind the last.
  std::optional<std::string_view> next() {
    if (!rest_) return std::nullopt;
    const std::size_t comma = rest_->find(',');
    const std::string_view field = rest_->substr(0, comma);
    rest_ =
        comma == std::string_view::npos ? std::nullopt : std::optional(rest_->substr(comma + 1));
    return field;
  }

  Result<std::int64_t> tokens(const char* column, std::int64_t lowest) {
    const auto field = next();
    std::int64_t value = 0;
    FieldScanner scanner(field.value_or(""));
    if (scanner.number(lowest, kTokensMax, value) && scanner.ends(true)) return value;
    return wrong_column(column, field ? quote(*field) : "nothing", whole_from(lowest, kTokensMax));
  }

private:
  std::optional<std::string_view> rest_;
};

/// YYYY-MM-DD HH:MM:SS[.F],PROMPT,OUTPUT and whatever follows.
Result<sim::TraceRow> csv_row(const std::string& text) {
  CsvRow row(text);
  const std::string_view time = *row.next();
  const auto at_us = us_of_date(time);
  if (!at_us) {
    return wrong_column("TIMESTAMP", quote(time),
                        "a day of the calendar and a time, as in 2023-11-16 18:15:46.68");
  }
  const auto prompt = row.tokens("ContextTokens", 1);
  if (!prompt) return prompt.error();
  const auto output = row.tokens("GeneratedTokens", 0);
  if (!output) return output.error();
  return sim::TraceRow{*at_us, *prompt, *output};
}

Error unreadable(const std::string& path, const std::string& what) {
  return {ErrorCode::io_error, fmt::format("{}: {}, expected a trace; write what it brings into a "
                                           "file first",
                                           path, what)};
}

} // namespace

Result<std::vector<sim::TraceRow>> read_trace(const std::string& path, std::int64_t rows_max) {
  std::error_code code;
  if (std::filesystem::exists(path, code) && !std::filesystem::is_regular_file(path, code)) {
    return unreadable(path, "found something that is no regular file");
  }
  // A path, also when it reads as the mark of standard input.
  auto reader = LineReader::open(path == "-" ? "./-" : path, kLineBytesMax);
  if (!reader.ok()) return reader.error();
  std::vector<sim::TraceRow> rows;
  InputLine line;
  std::int64_t first_us = 0;
  bool is_csv = false;
  while (static_cast<std::int64_t>(rows.size()) < rows_max) {
    const auto state = reader->next(line);
    if (!state.ok()) return state.error();
    if (*state == ReadState::end) break;
    if (line.number == 1 && line.text == kCsvHeader) {
      is_csv = true;
      continue;
    }
    if (line.is_too_long) {
      return Error{
          ErrorCode::parse_error,
          fmt::format("{}:{}: found a line of {} bytes, expected at most {}; is it a trace?", path,
                      line.number, line.length, kLineBytesMax)};
    }
    auto row = is_csv ? csv_row(line.text) : json_row(line.text);
    if (!row) {
      return Error{ErrorCode::parse_error, fmt::format("{}:{}: {}; repair the row or take it out",
                                                       path, line.number, row.error().message)};
    }
    if (rows.empty()) first_us = row->at_us;
    row->at_us -= first_us;
    if (row->output < 1) row->output = 1;
    if (row->at_us < 0 || (!rows.empty() && row->at_us < rows.back().at_us)) {
      return Error{ErrorCode::parse_error,
                   fmt::format("{}:{}: found a time before the row above, expected rows that "
                               "ascend; sort the file by time",
                               path, line.number)};
    }
    rows.push_back(*row);
  }
  if (rows.empty()) {
    return Error{
        ErrorCode::parse_error,
        fmt::format("{}: found no rows, expected one at least; is it the right file?", path)};
  }
  return rows;
}

} // namespace troupe::app
