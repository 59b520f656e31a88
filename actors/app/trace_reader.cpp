#include "actors/app/trace_reader.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

namespace troupe::app {

namespace {

constexpr const char* kCsvHeader = "TIMESTAMP,ContextTokens,GeneratedTokens";

std::optional<std::int64_t> whole(const nlohmann::json& line, const char* key) {
  const auto at = line.find(key);
  if (at == line.end() || !at->is_number()) return std::nullopt;
  const auto value = at->get<double>();
  if (!(value >= 0) || value > 9e15) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

std::optional<sim::TraceRow> json_row(const std::string& text) {
  const auto line = nlohmann::json::parse(text, nullptr, false);
  if (!line.is_object()) return std::nullopt;
  const auto at_ms = whole(line, "timestamp");
  const auto prompt = whole(line, "input_length");
  const auto output = whole(line, "output_length");
  if (!at_ms || !prompt || !output || *at_ms > 9'000'000'000'000) return std::nullopt;
  return sim::TraceRow{*at_ms * 1000, *prompt, *output};
}

/// Days since 1970-01-01 of a date of the common calendar.
std::int64_t days_of(int year, int month, int day) {
  const std::int64_t y = month <= 2 ? year - 1 : year;
  const std::int64_t era = y / 400;
  const std::int64_t of_era = y - era * 400;
  const std::int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146'097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719'468;
}

std::optional<sim::TraceRow> csv_row(const std::string& text) {
  int year = 0;
  int month = 0;
  int day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  int used = 0;
  if (std::sscanf(text.c_str(), "%d-%d-%d %d:%d:%d%n", &year, &month, &day, &hour, &minute, &second,
                  &used) != 6 ||
      year < 1970 || month < 1 || month > 12) {
    return std::nullopt;
  }
  const char* at = text.c_str() + used;
  std::int64_t micros = 0;
  if (*at == '.') {
    std::int64_t unit = 100'000;
    for (++at; *at >= '0' && *at <= '9'; ++at, unit /= 10)
      micros += (*at - '0') * unit;
  }
  long long prompt = 0;
  long long output = 0;
  if (std::sscanf(at, ",%lld,%lld", &prompt, &output) != 2 || prompt < 0 || output < 0) {
    return std::nullopt;
  }
  const std::int64_t seconds =
      ((days_of(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
  return sim::TraceRow{seconds * 1'000'000 + micros, prompt, output};
}

} // namespace

Result<std::vector<sim::TraceRow>> read_trace(const std::string& path, std::int64_t rows_max) {
  std::error_code code;
  // Opening a pipe would wait for its writer, without a bound.
  if (std::filesystem::exists(path, code) && !std::filesystem::is_regular_file(path, code)) {
    return Error{ErrorCode::io_error,
                 fmt::format("{}: found something that is no regular file, expected a trace; write "
                             "what it brings into a file first",
                             path)};
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error{ErrorCode::io_error, fmt::format("{}: cannot open the trace", path)};
  std::vector<sim::TraceRow> rows;
  std::string line;
  std::int64_t number = 0;
  std::int64_t first_us = 0;
  bool is_csv = false;
  while (static_cast<std::int64_t>(rows.size()) < rows_max && std::getline(in, line)) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (number == 1 && line == kCsvHeader) {
      is_csv = true;
      continue;
    }
    if (line.empty()) continue;
    auto row = is_csv ? csv_row(line) : json_row(line);
    if (!row || row->prompt < 1 || row->prompt > (1 << 24) || row->output > (1 << 24)) {
      return Error{ErrorCode::parse_error,
                   fmt::format("{}:{}: expected {}", path, number,
                               is_csv ? "a time, prompt tokens and output tokens"
                                      : "a JSON object with timestamp, input_length >= 1 and "
                                        "output_length, or the header TIMESTAMP,ContextTokens,"
                                        "GeneratedTokens")};
    }
    if (rows.empty()) first_us = row->at_us;
    row->at_us -= first_us;
    if (row->output < 1) row->output = 1;
    if (row->at_us < 0 || (!rows.empty() && row->at_us < rows.back().at_us)) {
      return Error{ErrorCode::parse_error,
                   fmt::format("{}:{}: found a time before the row above, expected rows that "
                               "ascend; sort the file by time",
                               path, number)};
    }
    rows.push_back(*row);
  }
  if (rows.empty()) {
    return Error{ErrorCode::parse_error, fmt::format("{}: the trace has no rows", path)};
  }
  return rows;
}

} // namespace troupe::app
