// Strict typed access to small JSON files: the first thing that is wrong is kept with file and key.
//
// Getters never fail by themselves: they return a harmless value and the document remembers the
// problem, so a reader is a flat list of fields and looks at status() once.

#pragma once

#include "schedulers/core/result.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::engine {

class JsonDocument;

/// One object of a document. Valid while the document lives. A null value counts as absent.
class JsonObject {
public:
  bool has(const char* key) const;

  /// Whole numbers only; without a fallback the key is required. 3.0 is not a whole number.
  std::int64_t integer(const char* key, std::int64_t min, std::int64_t max,
                       std::optional<std::int64_t> fallback = std::nullopt) const;
  double number(const char* key, double min, double max,
                std::optional<double> fallback = std::nullopt) const;
  bool boolean(const char* key, bool fallback) const;
  std::string text(const char* key, std::optional<std::string> fallback = std::nullopt) const;

  /// A required list of whole numbers.
  std::vector<std::int64_t> integers(const char* key, std::int64_t min, std::int64_t max) const;

  /// A whole number, or a list of them; required.
  std::vector<std::int64_t> one_or_more(const char* key, std::int64_t min, std::int64_t max) const;

  /// A required list of lists of whole numbers.
  std::vector<std::vector<std::int64_t>> rows(const char* key, std::int64_t min,
                                              std::int64_t max) const;

  /// A required object; when it is not there, one in which every key is absent and silent.
  JsonObject object(const char* key) const;

  std::vector<std::string> keys() const;

  /// Reports `what` about `key`, unless something was wrong before.
  void fail(const std::string& key, const std::string& what,
            ErrorCode code = ErrorCode::bad_checkpoint) const;

private:
  friend class JsonDocument;
  JsonObject(const JsonDocument* document, const nlohmann::json* value, std::string prefix)
      : document_(document), value_(value), prefix_(std::move(prefix)) {}

  const nlohmann::json* at(const char* key) const;
  const nlohmann::json* needed(const char* key, bool required, const char* expected) const;
  std::int64_t checked(const char* key, const nlohmann::json& value, std::int64_t min,
                       std::int64_t max) const;

  const JsonDocument* document_;
  const nlohmann::json* value_;
  std::string prefix_;
};

/// A parsed file and the first problem found in it.
class JsonDocument {
public:
  /// Nesting is bounded, and a key that stands twice in one object is refused.
  ///
  ///   Errors   not_found, io_error, bad_checkpoint
  static Result<JsonDocument> read(const std::string& path, std::int64_t bytes_max);

  JsonObject root() const;
  const std::string& path() const;
  const Status& status() const;

private:
  friend class JsonObject;
  struct State;
  std::shared_ptr<State> state_;
};

} // namespace troupe::engine
