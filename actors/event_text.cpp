#include "actors/event_text.hpp"

#include "schedulers/stage/effect_fields.hpp"

#include <map>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace troupe::actors {

namespace {

/// Whether JSON can hold these bytes as they are.
bool is_utf8(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const std::size_t more = lead < 0x80                   ? 0
                             : lead >= 0xC2 && lead < 0xE0 ? 1
                             : lead >= 0xE0 && lead < 0xF0 ? 2
                             : lead >= 0xF0 && lead < 0xF5 ? 3
                                                           : text.size();
    if (more >= text.size() - at) return false;
    for (std::size_t i = 1; i <= more; ++i) {
      const auto next = static_cast<unsigned char>(text[at + i]);
      const bool low = i == 1 && ((lead == 0xE0 && next < 0xA0) || (lead == 0xF0 && next < 0x90));
      const bool high = i == 1 && ((lead == 0xED && next > 0x9F) || (lead == 0xF4 && next > 0x8F));
      if (next < 0x80 || next > 0xBF || low || high) return false;
    }
    at += more + 1;
  }
  return true;
}

std::string hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out = "hex:";
  for (const char c : bytes) {
    out += kDigits[static_cast<unsigned char>(c) >> 4];
    out += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

/// A value and all below it. Bytes that are no text are "hex:...".
class JsonFields {
public:
  explicit JsonFields(JsonWriter& json) : json_(json) {}

  template <class Field>
  JsonFields& operator()(const char* name, const Field& field) {
    json_.key(name);
    value(field);
    return *this;
  }

  template <class T>
  void value(const T& given) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      json_.value(given);
    } else {
      json_.open('{');
      each_field(given, *this);
      json_.close('}');
    }
  }
  void value(const std::string& text) {
    if (is_utf8(text)) {
      json_.value(text);
    } else {
      json_.value(hex(text));
    }
  }
  template <class T>
  void value(const std::vector<T>& list) {
    json_.open('[');
    for (const T& one : list)
      value(one);
    json_.close(']');
  }
  template <class T>
  void value(const std::map<std::string, T>& table) {
    json_.open('{');
    for (const auto& [key, one] : table) {
      json_.key_text(key);
      value(one);
    }
    json_.close('}');
  }
  template <class... T>
  void value(const std::variant<T...>& given) {
    std::visit([this](const auto& one) { value(one); }, given);
  }

private:
  JsonWriter& json_;
};

} // namespace

void event_fields(JsonWriter& json, const sched::StageBegan& began) {
  JsonFields fields(json);
  fields("options", began.options)("policies", began.policies);
}

void event_fields(JsonWriter& json, const sched::StageTook& took) {
  json.field("number", took.number).field("event", event_name(took));
  JsonFields fields(json);
  if (took.event) fields("fields", *took.event);
  fields("effects", took.effects);
}

std::string_view event_name(const sched::StageTook& took) noexcept {
  return took.event ? sched::kEventNames[took.event->index()] : std::string_view("start");
}

} // namespace troupe::actors
