#include "actors/event_text.hpp"

#include "schedulers/core/hex.hpp"
#include "schedulers/core/utf8.hpp"
#include "schedulers/stage/effect_fields.hpp"

#include <map>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace troupe::actors {

namespace {

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
    json_.value(invalid_utf8_at(text) ? "hex:" + hex_of(text) : text);
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
    std::visit([this](const auto& one) { this->value(one); }, given);
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
