// Walks a value field by field, and what comes of it: bytes to compare, a digest, named rows.

#pragma once

#include "schedulers/core/rng.hpp"
#include "schedulers/stage/effect_fields.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace troupe::sched {

/// Gives `Sink` every number and text below a value, in order: word(n), text(s); around each field
/// enter(name) and leave(), around each element of a list enter_row(i) and leave().
template <class Sink>
class FieldWalker {
public:
  explicit FieldWalker(Sink& sink) : sink_(sink) {}

  template <class Field>
  FieldWalker& operator()(const char* name, const Field& field) {
    sink_.enter(name);
    walk(field);
    sink_.leave();
    return *this;
  }

  template <class T>
  void walk(const T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      sink_.word(std::bit_cast<std::uint64_t>(value)); // An option as the user wrote it.
    } else if constexpr (std::is_integral_v<T>) {
      sink_.word(static_cast<std::uint64_t>(value));
    } else if constexpr (std::is_enum_v<T>) {
      sink_.word(static_cast<std::uint64_t>(value));
    } else {
      each_field(value, *this);
    }
  }
  void walk(const std::string& value) { sink_.text(value); }
  template <class T>
  void walk(const std::vector<T>& list) {
    (*this)("size", list.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      sink_.enter_row(i);
      walk(list[i]);
      sink_.leave();
    }
  }
  template <class T>
  void walk(const std::map<std::string, T>& table) {
    (*this)("size", table.size());
    for (const auto& [key, value] : table) {
      (*this)("key", key);
      walk(value);
    }
  }
  template <class T>
  void walk(const std::optional<T>& value) {
    (*this)("has_value", value.has_value());
    if (value) walk(*value);
  }
  template <class T>
  void walk(const std::shared_ptr<const T>& value) {
    walk(*value);
  }
  template <class... T>
  void walk(const std::variant<T...>& value) {
    (*this)("alternative", value.index());
    std::visit([this](const auto& one) { this->walk(one); }, value);
  }

private:
  Sink& sink_;
};

/// All of a value as bytes: equal values, equal bytes, and the other way round.
class BytesSink {
public:
  void enter(const char*) noexcept {}
  void enter_row(std::size_t) noexcept {}
  void leave() noexcept {}
  void word(std::uint64_t n) {
    char raw[sizeof(n)];
    for (std::size_t i = 0; i < sizeof(n); ++i)
      raw[i] = static_cast<char>((n >> (8 * i)) & 0xFF);
    bytes.append(raw, sizeof(n));
  }
  void text(const std::string& text) {
    word(text.size());
    bytes += text;
  }

  std::string bytes;
};

template <class T>
std::string bytes_of_fields(const T& value) {
  BytesSink sink;
  FieldWalker<BytesSink>(sink).walk(value);
  return std::move(sink.bytes);
}

/// 64 bits over all of a value; stable across compilers.
class DigestSink {
public:
  void enter(const char*) noexcept {}
  void enter_row(std::size_t) noexcept {}
  void leave() noexcept {}
  void word(std::uint64_t n) noexcept { digest = mix64(digest ^ n); }
  void text(const std::string& text) noexcept {
    word(text.size());
    std::uint64_t part = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      part = part << 8 | static_cast<unsigned char>(text[i]);
      if (i % 8 == 7) word(part);
    }
    word(part);
  }

  std::uint64_t digest = 0;
};

/// The fields of a value by name, as in "answer.value.rank" and "2".
using FieldRows = std::vector<std::pair<std::string, std::string>>;

template <class T>
FieldRows rows_of_fields(const T& value);

/// Where two values differ, for a person: the first fields, then how many more there are; "" where
/// they do not.
std::string difference_text(const FieldRows& then, const FieldRows& now);

/// Gathers rows. Numbers are written as signed: ids and counts stay far below 2^63.
class RowsSink {
public:
  void enter(const char* name) {
    marks_.push_back(path_.size());
    if (!path_.empty()) path_ += '.';
    path_ += name;
  }
  void enter_row(std::size_t i) {
    marks_.push_back(path_.size());
    path_ += '[' + std::to_string(i) + ']';
  }
  void leave() {
    path_.resize(marks_.back());
    marks_.pop_back();
  }
  void word(std::uint64_t n) {
    rows.emplace_back(path_, std::to_string(static_cast<std::int64_t>(n)));
  }
  void text(const std::string& text) { rows.emplace_back(path_, '"' + text + '"'); }

  FieldRows rows;

private:
  std::string path_;
  std::vector<std::size_t> marks_;
};

template <class T>
FieldRows rows_of_fields(const T& value) {
  RowsSink sink;
  FieldWalker<RowsSink>(sink).walk(value);
  return std::move(sink.rows);
}

} // namespace troupe::sched
