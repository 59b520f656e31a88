#include "actors/app/trace_reader.hpp"

#include "actors/app/batch_files.hpp"
#include "schedulers/core/printable.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

namespace troupe::app {

namespace {

constexpr const char* kCsvHeader = "TIMESTAMP,ContextTokens,GeneratedTokens";
constexpr std::int64_t kTokensMax = 1 << 24;
constexpr std::int64_t kLineBytesMax = 1 << 20; ///< A row of a trace may hold what we do not read.

std::optional<std::int64_t> whole(const nlohmann::json& line, const char* key) {
  const auto at = line.find(key);
  if (at == line.end() || !at->is_number()) return std::nullopt;
  const auto value = at->get<double>();
  if (!(value >= 0) || value > 9e15) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

std::optional<sim::TraceRow> json_row(const std::string& text) {
  // The JSON reader takes a zero byte for the end of its input.
  if (text.find('\0') != std::string::npos) return std::nullopt;
  const auto line = nlohmann::json::parse(text, nullptr, false);
  if (!line.is_object()) return std::nullopt;
  const auto at_ms = whole(line, "timestamp");
  const auto prompt = whole(line, "input_length");
  const auto output = whole(line, "output_length");
  if (!at_ms || !prompt || !output || *at_ms > 9'000'000'000'000) return std::nullopt;
  return sim::TraceRow{*at_ms * 1000, *prompt, *output};
}

/// Days since 1970-01-01 of a date of the common calendar.
std::int64_t days_of(std::int64_t year, std::int64_t month, std::int64_t day) {
  const std::int64_t y = month <= 2 ? year - 1 : year;
  const std::int64_t era = y / 400;
  const std::int64_t of_era = y - era * 400;
  const std::int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146'097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719'468;
}

/// Reads a row of numbers and marks from the left.
class RowScanner {
public:
  explicit RowScanner(const std::string& text)
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

private:
  const char* at_;
  const char* end_;
};

/// YYYY-MM-DD HH:MM:SS[.F],PROMPT,OUTPUT and whatever follows.
std::optional<sim::TraceRow> csv_row(const std::string& text) {
  RowScanner row(text);
  std::int64_t year = 0;
  std::int64_t month = 0;
  std::int64_t day = 0;
  std::int64_t hour = 0;
  std::int64_t minute = 0;
  std::int64_t second = 0;
  const bool is_date = row.number(1970, 9999, year) && row.mark('-') && row.number(1, 12, month) &&
                       row.mark('-') && row.number(1, 31, day) && row.mark(' ');
  const bool is_time = is_date && row.number(0, 23, hour) && row.mark(':') &&
                       row.number(0, 59, minute) && row.mark(':') && row.number(0, 60, second);
  if (!is_time) return std::nullopt;
  const std::int64_t micros = row.fraction_us();
  sim::TraceRow out;
  const bool is_row = row.mark(',') && row.number(0, kTokensMax, out.prompt) && row.mark(',') &&
                      row.number(0, kTokensMax, out.output);
  if (!is_row) return std::nullopt;
  const std::int64_t seconds =
      ((days_of(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
  out.at_us = seconds * 1'000'000 + micros;
  return out;
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
    if (!row || row->prompt < 1 || row->prompt > kTokensMax || row->output > kTokensMax) {
      return Error{ErrorCode::parse_error,
                   fmt::format("{}:{}: found {}, expected {}; repair the row or take it out", path,
                               line.number, quote(line.text),
                               is_csv ? "a time, prompt tokens and output tokens"
                                      : "a JSON object with timestamp, input_length >= 1 and "
                                        "output_length, or the header TIMESTAMP,ContextTokens,"
                                        "GeneratedTokens on the first line")};
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
