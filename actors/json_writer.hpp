// Writes JSON text piece by piece: objects, arrays, integers and strings.

#pragma once

#include "schedulers/core/hex.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace troupe::actors {

/// The caller closes what it opens; keys and values come in turn.
class JsonWriter {
public:
  JsonWriter& open(char bracket) {
    separate();
    out_ += bracket;
    is_first_ = true;
    return *this;
  }
  JsonWriter& close(char bracket) {
    out_ += bracket;
    is_first_ = false;
    return *this;
  }

  JsonWriter& key(std::string_view name) {
    separate();
    out_ += '"';
    out_ += name;
    out_ += "\":";
    is_first_ = true; // No comma before its value.
    return *this;
  }

  /// A key that is any text.
  JsonWriter& key_text(std::string_view name) {
    separate();
    text(name);
    out_ += ':';
    is_first_ = true;
    return *this;
  }

  template <class Value>
  JsonWriter& value(const Value& value) {
    separate();
    if constexpr (std::is_same_v<Value, bool>) {
      out_ += value ? "true" : "false";
    } else if constexpr (std::is_enum_v<Value>) {
      out_ += std::to_string(static_cast<std::uint64_t>(value));
    } else if constexpr (std::is_arithmetic_v<Value>) {
      out_ += std::to_string(value);
    } else {
      text(value);
    }
    return *this;
  }

  /// "name":value
  template <class Value>
  JsonWriter& field(std::string_view name, const Value& given) {
    return key(name).value(given);
  }

  std::string take() { return std::move(out_); }

private:
  void separate() {
    if (!is_first_) out_ += ',';
    is_first_ = false;
  }

  void text(std::string_view text) {
    out_ += '"';
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        out_ += '\\';
        out_ += c;
      } else if (byte < 0x20) {
        append_hex(byte, 4, out_.append("\\u"));
      } else {
        out_ += c;
      }
    }
    out_ += '"';
  }

  std::string out_;
  bool is_first_ = true;
};

} // namespace troupe::actors
