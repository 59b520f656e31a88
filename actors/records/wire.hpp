// Structs ↔ the wire format of Protobuf, by the lists of schedulers/stage/fields.hpp: the n-th
// field of a struct is field n of its message.
//
// The messages are those of events.proto, and a test holds both against each other.

#pragma once

#include "schedulers/model/role.hpp"
#include "schedulers/registry/policy_set.hpp"
#include "schedulers/stage/fields.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace troupe::actors {

enum class WireType : std::uint8_t { varint = 0, bytes = 2 };

/// What a list on the wire may make of few bytes: a file that says more is damaged.
inline constexpr std::size_t kWireRowsMax = 1 << 20;

/// The highest number of an enum, where it is one of few; ids may be anything.
template <class E>
constexpr std::uint64_t highest_of() noexcept {
  if constexpr (std::is_same_v<E, sched::Role>)
    return static_cast<std::uint64_t>(sched::Role::both);
  if constexpr (std::is_same_v<E, sched::Reservation>)
    return static_cast<std::uint64_t>(sched::Reservation::shielded);
  if constexpr (std::is_same_v<E, sched::EndReason>)
    return static_cast<std::uint64_t>(sched::EndReason::length);
  if constexpr (std::is_same_v<E, sched::TimerKind>)
    return static_cast<std::uint64_t>(sched::TimerKind::experts);
  if constexpr (std::is_same_v<E, sched::StageKind>)
    return static_cast<std::uint64_t>(sched::StageKind::experts);
  using Number = std::make_unsigned_t<std::underlying_type_t<E>>;
  return std::numeric_limits<Number>::max();
}

/// The bytes of a policy set, and back; false where they are none.
std::string encode_policies(const sched::PolicySet& set);
bool decode_policies(std::string_view bytes, sched::PolicySet& set);

/// Appends the message of a struct. A field that is zero or empty is left out.
///
///   bool, unsigned, enum, id   bool, uint32, uint64      int32, int64   sint32, sint64
///   text                       bytes                     struct         message
///   list of numbers            packed repeated           list           repeated message
///   list of lists of numbers   repeated message of one packed field
class WireWriter {
public:
  explicit WireWriter(std::string& out) : out_(&out) {}

  template <class Field>
  WireWriter& operator()(const char* /*name*/, const Field& field) {
    put(++number_, field);
    return *this;
  }

  /// A message as field `number`, also when it is empty.
  template <class T>
  void message(std::uint32_t number, const T& value) {
    tag(number, WireType::bytes);
    const std::size_t begin = out_->size();
    WireWriter inner(*out_);
    each_field(value, inner);
    insert_length(begin);
  }

private:
  template <class T>
  void put(std::uint32_t number, const T& value) {
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      const std::uint64_t code = code_of(value);
      if (code == 0) return;
      tag(number, WireType::varint);
      varint(code);
    } else {
      const std::size_t before = out_->size();
      message(number, value);
      if (out_->size() == before + tag_bytes(number) + 1) out_->resize(before); // Of zeros only.
    }
  }
  void put(std::uint32_t number, const std::string& text) {
    if (!text.empty()) bytes(number, text);
  }
  void put(std::uint32_t number, const sched::PolicySet& set) {
    bytes(number, encode_policies(set));
  }
  template <class T>
  void put(std::uint32_t number, const std::vector<T>& list) {
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      if (list.empty()) return;
      tag(number, WireType::bytes);
      const std::size_t begin = out_->size();
      for (const T& value : list)
        varint(code_of(value));
      insert_length(begin);
    } else {
      for (const T& value : list)
        message(number, value);
    }
  }
  template <class T>
  void put(std::uint32_t number, const std::vector<std::vector<T>>& lists) {
    for (const std::vector<T>& list : lists) {
      tag(number, WireType::bytes);
      const std::size_t begin = out_->size();
      put(1, list);
      insert_length(begin);
    }
  }

  /// What stands for a number on the wire; signed ones in zigzag.
  template <class T>
  static std::uint64_t code_of(T value) noexcept {
    if constexpr (std::is_enum_v<T>) {
      return static_cast<std::uint64_t>(value);
    } else if constexpr (std::is_signed_v<T>) {
      const auto wide = static_cast<std::int64_t>(value);
      return static_cast<std::uint64_t>(wide) << 1 ^ static_cast<std::uint64_t>(wide >> 63);
    } else {
      return static_cast<std::uint64_t>(value);
    }
  }

  void bytes(std::uint32_t number, std::string_view text) {
    tag(number, WireType::bytes);
    varint(text.size());
    out_->append(text);
  }
  void tag(std::uint32_t number, WireType type) {
    varint(std::uint64_t{number} << 3 | static_cast<std::uint64_t>(type));
  }
  static std::size_t tag_bytes(std::uint32_t number) noexcept { return number < 16 ? 1 : 2; }
  void varint(std::uint64_t n) {
    for (; n >= 0x80; n >>= 7)
      out_->push_back(static_cast<char>(n | 0x80));
    out_->push_back(static_cast<char>(n));
  }
  /// The length of what was written since `begin`, before it.
  void insert_length(std::size_t begin) {
    std::string length;
    std::size_t n = out_->size() - begin;
    for (; n >= 0x80; n >>= 7)
      length.push_back(static_cast<char>(n | 0x80));
    length.push_back(static_cast<char>(n));
    out_->insert(begin, length);
  }

  std::string* out_;
  std::uint32_t number_ = 0;
};

/// Reads the message of a struct: fields in ascending order, none unknown. What the bytes leave out
/// becomes zero, whatever its default is.
class WireReader {
public:
  explicit WireReader(std::string_view in) : in_(in) {}

  template <class Field>
  WireReader& operator()(const char* /*name*/, Field& field) {
    ++number_;
    take(field);
    return *this;
  }

  /// All fields of `value`; the whole of the bytes must be used up.
  template <class T>
  static bool read(std::string_view in, T& value) {
    WireReader reader(in);
    each_field(value, reader);
    return reader.ok_ && reader.at_ == in.size();
  }

  /// The field that comes next, as a message in bytes; its number, or 0 where there is none.
  std::uint32_t message(std::string_view& content) {
    std::uint64_t tag = 0;
    if (!varint(tag) || (tag & 7) != static_cast<std::uint64_t>(WireType::bytes)) return 0;
    if (!length(content) || tag >> 3 > std::numeric_limits<std::uint32_t>::max()) return 0;
    return static_cast<std::uint32_t>(tag >> 3);
  }
  bool at_end() const noexcept { return at_ == in_.size(); }

private:
  template <class T>
  void take(T& value) {
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      std::uint64_t code = 0;
      value = T{};
      if (!begins(WireType::varint)) return;
      ok_ = ok_ && varint(code) && decode(code, value);
    } else {
      std::string_view content; // Left out: all of its fields are zero.
      if (begins(WireType::bytes)) ok_ = ok_ && length(content);
      ok_ = ok_ && read(content, value);
    }
  }
  void take(std::string& text) {
    std::string_view content;
    text.clear();
    if (!begins(WireType::bytes)) return;
    ok_ = ok_ && length(content);
    text = content;
  }
  void take(sched::PolicySet& set) {
    std::string_view content;
    if (!begins(WireType::bytes)) return;
    ok_ = ok_ && length(content) && decode_policies(content, set);
  }
  template <class T>
  void take(std::vector<T>& list) {
    list.clear();
    std::string_view content;
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      if (!begins(WireType::bytes)) return;
      ok_ = ok_ && length(content) && unpack(content, list);
    } else {
      while (begins(WireType::bytes) && list.size() < kWireRowsMax) {
        ok_ = ok_ && length(content) && read(content, list.emplace_back());
      }
    }
  }
  template <class T>
  void take(std::vector<std::vector<T>>& lists) {
    lists.clear();
    std::string_view content;
    while (begins(WireType::bytes) && lists.size() < kWireRowsMax) {
      if (!length(content)) return;
      WireReader inner(content);
      inner.number_ = 1;
      inner.take(lists.emplace_back());
      ok_ = ok_ && inner.ok_ && inner.at_end();
    }
  }

  /// Takes the tag of the present field, when it comes next.
  bool begins(WireType type) {
    const std::size_t before = at_;
    std::uint64_t tag = 0;
    if (!ok_ || at_ >= in_.size() || !varint(tag)) return false;
    if (tag == (std::uint64_t{number_} << 3 | static_cast<std::uint64_t>(type))) return true;
    at_ = before;
    return false;
  }
  bool varint(std::uint64_t& n) {
    n = 0;
    for (unsigned shift = 0; shift < 64 && at_ < in_.size(); shift += 7) {
      const auto byte = static_cast<unsigned char>(in_[at_++]);
      n |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return true;
    }
    return ok_ = false;
  }
  bool length(std::string_view& content) {
    std::uint64_t n = 0;
    if (!varint(n) || n > in_.size() - at_) return ok_ = false;
    content = in_.substr(at_, static_cast<std::size_t>(n));
    at_ += static_cast<std::size_t>(n);
    return true;
  }
  template <class T>
  static bool unpack(std::string_view content, std::vector<T>& list) {
    WireReader reader(content);
    while (reader.ok_ && !reader.at_end()) {
      std::uint64_t code = 0;
      if (!reader.varint(code) || !decode(code, list.emplace_back())) return false;
    }
    return reader.ok_;
  }
  /// False for a number that the field cannot hold.
  template <class T>
  static bool decode(std::uint64_t code, T& value) noexcept {
    if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(code);
      return code <= highest_of<T>();
    } else if constexpr (std::is_signed_v<T>) {
      const auto wide = static_cast<std::int64_t>(code >> 1 ^ (~(code & 1) + 1));
      value = static_cast<T>(wide);
      return static_cast<std::int64_t>(value) == wide;
    } else {
      value = static_cast<T>(code);
      return static_cast<std::uint64_t>(value) == code;
    }
  }

  std::string_view in_;
  std::size_t at_ = 0;
  std::uint32_t number_ = 0;
  bool ok_ = true;
};

} // namespace troupe::actors
