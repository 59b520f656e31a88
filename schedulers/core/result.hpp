// Expected failures as values: Result<T> and Status.
//
// A bug is a TROUPE_CHECK, an expected failure is one of these; no exception crosses a room.

#pragma once

#include "schedulers/core/check.hpp"
#include "schedulers/core/error_codes.hpp"

#include <string>
#include <utility>
#include <variant>

namespace troupe {

/// A code and one sentence for a person: what was found, what was expected, what to do.
struct Error {
  ErrorCode code = ErrorCode::ok;
  std::string message;
};

/// Success, or an Error.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {} // NOLINT(google-explicit-constructor)
  Status(ErrorCode code, std::string message) : error_{code, std::move(message)} {}

  bool ok() const noexcept { return error_.code == ErrorCode::ok; }
  explicit operator bool() const noexcept { return ok(); }
  const Error& error() const noexcept { return error_; }

private:
  Error error_;
};

/// A value, or an Error.
template <class T>
class [[nodiscard]] Result {
public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}     // NOLINT
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {} // NOLINT
  Result(ErrorCode code, std::string message)
      : state_(std::in_place_index<1>, Error{code, std::move(message)}) {}

  bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  /// @pre ok()
  T& value() & { return checked(); }
  const T& value() const& {
    TROUPE_CHECK(ok(), "value() of a failed Result");
    return std::get<0>(state_);
  }
  T&& value() && { return std::move(checked()); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  /// @pre !ok()
  const Error& error() const {
    TROUPE_CHECK(!ok(), "error() of a good Result");
    return std::get<1>(state_);
  }
  Status status() const { return ok() ? Status{} : Status{std::get<1>(state_)}; }

private:
  T& checked() {
    TROUPE_CHECK(ok(), "value() of a failed Result");
    return std::get<0>(state_);
  }
  std::variant<T, Error> state_;
};

} // namespace troupe
