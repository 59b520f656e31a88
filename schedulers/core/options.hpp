// A key/value table with strict typed getters: an unread or unknown key is an error.
//
// The config loader fills it from TOML; a policy's factory reads its options from it.

#pragma once

#include "schedulers/core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace troupe {

/// A value as written by the user, with the place it came from.
struct OptionValue {
  std::variant<bool, std::int64_t, double, std::string> value;
  std::string where; ///< "FILE:LINE", empty for values set in code.
};

/// Options of one table of a configuration file.
///
/// Getters mark their key as known. After all reads `finish()` reports the first key that nobody
/// asked for, with the nearest known one.
class OptionTable {
public:
  OptionTable() = default;
  explicit OptionTable(std::string name) : name_(std::move(name)) {}

  void set(const std::string& key, OptionValue value) { values_[key] = std::move(value); }

  /// Integer in [lowest, highest], or `fallback` when absent. A wrong type or range is remembered
  /// as the table's error and `fallback` is returned.
  std::int64_t integer(const std::string& key, std::int64_t fallback, std::int64_t lowest,
                       std::int64_t highest);
  bool boolean(const std::string& key, bool fallback);
  /// A real number for whoever rounds it before it decides anything; whole ones count too.
  double number(const std::string& key, double fallback, double lowest, double highest);
  std::string text(const std::string& key, const std::string& fallback);
  /// The place of the text among `names`, or `fallback` when absent.
  std::size_t choice(const std::string& key, std::size_t fallback,
                     std::span<const std::string_view> names);
  /// A real number as thousandths, rounded to nearest: decisions use integers only.
  std::int64_t thousandths(const std::string& key, std::int64_t fallback, std::int64_t lowest,
                           std::int64_t highest);

  /// Every key below `prefix` ("weights" reads weights.NAME) as thousandths, by NAME.
  std::map<std::string, std::int64_t> thousandths_below(const std::string& prefix,
                                                        std::int64_t lowest, std::int64_t highest);

  /// How many entries the list `key` has: they are the keys "KEY[0]", "KEY[1]", ... A value or a
  /// table in its place is remembered as the table's error; `form` shows what was expected.
  std::size_t list_size(const std::string& key, const std::string& form);
  /// The same for a list of tables, whose entries are "KEY[0].MEMBER".
  std::size_t tables_size(const std::string& key, const std::string& form);

  /// From now on getters put the fallbacks of absent keys there, those that a file could hold.
  using Defaults = std::map<std::string, OptionValue>;
  void report_defaults_to(std::shared_ptr<Defaults> defaults) { defaults_ = std::move(defaults); }

  /// The first error of all getters, or an unread key, or ok.
  Status finish() const;

  const std::string& name() const noexcept { return name_; }
  const std::map<std::string, OptionValue>& values() const noexcept { return values_; }

private:
  /// The value of `key`; a list or table in its place is an error that names `expected`.
  const OptionValue* find(const std::string& key, const std::string& expected);
  /// First of the keys that begin with `begin`, or none.
  const std::pair<const std::string, OptionValue>* first_below(const std::string& begin) const;
  /// The known keys that begin with `begin`, without it, each behind a blank.
  std::string known_below(const std::string& begin) const;
  /// What to do about a key that is not known.
  std::string known_hint(const std::string& key) const;
  void fail(const OptionValue& at, const std::string& key, ErrorCode code,
            const std::string& message);

  /// Table and key as messages name them.
  std::string path_of(const std::string& key) const;
  void report_default(const std::string& key, OptionValue value);

  std::string name_;
  std::map<std::string, OptionValue> values_;
  std::shared_ptr<Defaults> defaults_; ///< Null: nobody asks.
  std::set<std::string> known_;
  Error first_error_;
};

/// The shortest text that reads back as the same real number and as no integer: "5.0". Pure.
std::string real_text(double real);

/// The entry of `known` nearest to `word` by edit distance, or "" when none is near.
std::string nearest_name(const std::string& word, const std::set<std::string>& known);

} // namespace troupe
