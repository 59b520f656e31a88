#include "schedulers/core/options.hpp"

#include "schedulers/core/printable.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace troupe {
namespace {

/// The shortest text that reads back as the same number.
std::string shortest(double real) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), real).ptr;
  return std::string(text.data(), end);
}

std::string shown(const OptionValue& value) {
  if (const auto* flag = std::get_if<bool>(&value.value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<std::int64_t>(&value.value)) return std::to_string(*number);
  if (const auto* real = std::get_if<double>(&value.value)) return real_text(*real);
  return quote(std::get<std::string>(value.value));
}

/// Thousandths as a decimal number: 1500 is "1.5".
std::string decimal(std::int64_t thousandths) {
  std::string text = std::to_string(thousandths / 1000);
  if (thousandths < 0 && thousandths > -1000) text = "-0";
  const std::int64_t rest = std::abs(thousandths % 1000);
  if (rest == 0) return text;
  std::string digits = std::to_string(1000 + rest).substr(1);
  while (digits.back() == '0')
    digits.pop_back();
  return text + "." + digits;
}

/// Edit distance with neighbours swapped at cost 1 (optimal string alignment).
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j)
    d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

} // namespace

std::string real_text(double real) {
  if (std::isnan(real)) return "nan"; // Its sign says nothing.
  std::string text = shortest(real);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

const std::pair<const std::string, OptionValue>*
OptionTable::first_below(const std::string& begin) const {
  const auto at = values_.lower_bound(begin);
  return at != values_.end() && at->first.compare(0, begin.size(), begin) == 0 ? &*at : nullptr;
}

const OptionValue* OptionTable::find(const std::string& key, const std::string& expected) {
  known_.insert(key);
  for (const char* mark : {"[", "."}) {
    const auto* below = first_below(key + mark);
    if (below == nullptr) continue;
    known_.insert(below->first);
    fail(below->second, key, ErrorCode::bad_argument,
         std::string("found a ") + (*mark == '[' ? "list" : "table") + ", expected " + expected);
  }
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

void OptionTable::report_default(const std::string& key, OptionValue value) {
  if (defaults_) defaults_->emplace(key, std::move(value));
}

std::string OptionTable::path_of(const std::string& key) const {
  return printable(name_.empty() ? key : name_ + "." + key);
}

void OptionTable::fail(const OptionValue& at, const std::string& key, ErrorCode code,
                       const std::string& message) {
  if (first_error_.code != ErrorCode::ok) return;
  const std::string place = at.where.empty() ? "" : at.where + ": ";
  first_error_ = Error{code, place + path_of(key) + ": " + message};
}

std::int64_t OptionTable::integer(const std::string& key, std::int64_t fallback,
                                  std::int64_t lowest, std::int64_t highest) {
  const std::string expected =
      "a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest);
  const OptionValue* found = find(key, expected);
  if (found == nullptr) {
    if (lowest <= fallback && fallback <= highest) report_default(key, {fallback, {}});
    return fallback;
  }
  const auto* number = std::get_if<std::int64_t>(&found->value);
  if (number != nullptr && *number >= lowest && *number <= highest) return *number;
  fail(*found, key, ErrorCode::bad_argument, "found " + shown(*found) + ", expected " + expected);
  return fallback;
}

bool OptionTable::boolean(const std::string& key, bool fallback) {
  const OptionValue* found = find(key, "true or false");
  if (found == nullptr) {
    report_default(key, {fallback, {}});
    return fallback;
  }
  if (const auto* flag = std::get_if<bool>(&found->value)) return *flag;
  fail(*found, key, ErrorCode::bad_argument, "found " + shown(*found) + ", expected true or false");
  return fallback;
}

double OptionTable::number(const std::string& key, double fallback, double lowest, double highest) {
  std::string expected = "a number";
  if (lowest > std::numeric_limits<double>::lowest()) expected += " from " + shortest(lowest);
  if (highest < std::numeric_limits<double>::max()) expected += " up to " + shortest(highest);
  const OptionValue* found = find(key, expected);
  if (found == nullptr) {
    report_default(key, {fallback, {}});
    return fallback;
  }
  double real = std::numeric_limits<double>::quiet_NaN();
  if (const auto* whole = std::get_if<std::int64_t>(&found->value)) {
    real = static_cast<double>(*whole);
  } else if (const auto* given = std::get_if<double>(&found->value)) {
    real = *given;
  }
  if (real >= lowest && real <= highest) return real;
  fail(*found, key, ErrorCode::bad_argument, "found " + shown(*found) + ", expected " + expected);
  return fallback;
}

std::string OptionTable::text(const std::string& key, const std::string& fallback) {
  const OptionValue* found = find(key, "a text in quotes");
  if (found == nullptr) {
    report_default(key, {fallback, {}});
    return fallback;
  }
  if (const auto* words = std::get_if<std::string>(&found->value)) return *words;
  fail(*found, key, ErrorCode::bad_argument,
       "found " + shown(*found) + ", expected a text in quotes");
  return fallback;
}

std::size_t OptionTable::choice(const std::string& key, std::size_t fallback,
                                std::span<const std::string_view> names) {
  std::string expected = "one of ";
  for (std::size_t i = 0; i < names.size(); ++i)
    expected += (i == 0 ? "" : ", ") + ('"' + std::string(names[i]) + '"');
  const OptionValue* found = find(key, expected);
  if (found == nullptr) {
    if (fallback < names.size()) report_default(key, {std::string(names[fallback]), {}});
    return fallback;
  }
  if (const auto* word = std::get_if<std::string>(&found->value)) {
    const auto at = std::find(names.begin(), names.end(), *word);
    if (at != names.end()) return static_cast<std::size_t>(at - names.begin());
  }
  fail(*found, key, ErrorCode::bad_argument, "found " + shown(*found) + ", expected " + expected);
  return fallback;
}

std::int64_t OptionTable::thousandths(const std::string& key, std::int64_t fallback,
                                      std::int64_t lowest, std::int64_t highest) {
  const std::string expected = "a number from " + decimal(lowest) + " to " + decimal(highest);
  const OptionValue* found = find(key, expected);
  if (found == nullptr) {
    if (lowest <= fallback && fallback <= highest) {
      report_default(key, {static_cast<double>(fallback) / 1000.0, {}});
    }
    return fallback;
  }
  double real = std::numeric_limits<double>::quiet_NaN();
  if (const auto* number = std::get_if<std::int64_t>(&found->value)) {
    real = static_cast<double>(*number);
  } else if (const auto* given = std::get_if<double>(&found->value)) {
    real = *given;
  }
  // The bounds are compared as they would be written, before anything is rounded.
  if (real >= static_cast<double>(lowest) / 1000.0 && real <= static_cast<double>(highest) / 1000.0)
    return std::llround(real * 1000.0);
  fail(*found, key, ErrorCode::bad_argument, "found " + shown(*found) + ", expected " + expected);
  return fallback;
}

std::map<std::string, std::int64_t> OptionTable::thousandths_below(const std::string& prefix,
                                                                   std::int64_t lowest,
                                                                   std::int64_t highest) {
  constexpr const char* kExpected = ", expected a table of names and numbers, as in { a = 2 }";
  std::map<std::string, std::int64_t> read;
  known_.insert(prefix);
  if (const auto found = values_.find(prefix); found != values_.end()) {
    fail(found->second, prefix, ErrorCode::bad_argument,
         "found " + shown(found->second) + kExpected);
  }
  if (const auto* entry = first_below(prefix + "[")) {
    fail(entry->second, prefix, ErrorCode::bad_argument, std::string("found a list") + kExpected);
  }
  const std::string begin = prefix + ".";
  for (const auto& [key, value] : values_) {
    if (key.compare(0, begin.size(), begin) != 0) continue;
    read[key.substr(begin.size())] = thousandths(key, lowest, lowest, highest);
  }
  return read;
}

std::size_t OptionTable::list_size(const std::string& key, const std::string& form) {
  known_.insert(key);
  const std::string expected = ", expected a list, as in " + key + " = " + form;
  if (const auto found = values_.find(key); found != values_.end()) {
    fail(found->second, key, ErrorCode::bad_argument, "found " + shown(found->second) + expected);
  }
  if (const auto* member = first_below(key + ".")) {
    fail(member->second, key, ErrorCode::bad_argument, "found a table" + expected);
  }
  std::size_t size = 0;
  while (first_below(key + "[" + std::to_string(size) + "]") != nullptr)
    ++size;
  return size;
}

std::size_t OptionTable::tables_size(const std::string& key, const std::string& form) {
  const std::size_t size = list_size(key, form);
  for (std::size_t i = 0; i < size; ++i) {
    const std::string entry = key + "[" + std::to_string(i) + "]";
    const auto* first = first_below(entry);
    if (first->first.compare(0, entry.size() + 1, entry + ".") == 0) continue;
    fail(first->second, entry, ErrorCode::bad_argument,
         "found " + (first->first == entry ? shown(first->second) : "a list") +
             ", expected a table, as in " + key + " = " + form);
  }
  return size;
}

Status OptionTable::finish() const {
  if (first_error_.code != ErrorCode::ok) return Status(first_error_);
  for (const auto& [key, value] : values_) {
    if (known_.count(key) != 0) continue;
    const std::string place = value.where.empty() ? "" : value.where + ": ";
    const std::size_t bracket = key.find('[');
    const std::string whole = key.substr(0, bracket);
    const std::string members = known_below(whole + ".");
    if (members.empty()) {
      return Status(ErrorCode::unknown_key,
                    place + path_of(key) + ": unknown key" + known_hint(key));
    }
    return Status(ErrorCode::bad_argument,
                  place + path_of(whole) + ": found " +
                      (bracket == std::string::npos ? shown(value) : "a list") +
                      ", expected a table with the keys" + members);
  }
  return {};
}

std::string OptionTable::known_below(const std::string& begin) const {
  std::string members;
  for (auto at = known_.lower_bound(begin);
       at != known_.end() && at->compare(0, begin.size(), begin) == 0; ++at)
    members.append(" ").append(*at, begin.size());
  return members;
}

std::string OptionTable::known_hint(const std::string& key) const {
  std::set<std::string> near_to = known_;
  near_to.insert("policy"); // The key of the table that is not one of its policy.
  const std::string near = nearest_name(key, near_to);
  if (!near.empty()) return "; did you mean \"" + near + "\"?";
  if (known_.empty()) return "; this table takes no options";
  return "; valid:" + known_below("");
}

std::string nearest_name(const std::string& word, const std::set<std::string>& known) {
  constexpr std::size_t kLengthMax = 64; // Longer words are no typing slip of a name.
  if (word.size() > kLengthMax) return {};
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& name : known) {
    const std::size_t d = distance(word, name);
    if (d < best_distance && d < std::max(word.size(), name.size())) {
      best = name;
      best_distance = d;
    }
  }
  return best;
}

} // namespace troupe
