#include "actors/plugin_options.hpp"

#include "schedulers/core/printable.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

namespace troupe::actors {
namespace {

using Json = nlohmann::ordered_json;
using Value = PluginOption::Value;

constexpr std::array<std::string_view, 4> kTypes = {"integer", "number", "boolean", "string"};

/// The whole schema is one text of a library, and so is each error about it.
Error wrong(const std::string& place, const std::string& what) {
  return {ErrorCode::unsupported,
          "options_schema" + (place.empty() ? "" : "." + place) + ": " + what};
}

std::string choices(const std::string& word, const std::set<std::string>& valid) {
  const std::string near = nearest_name(word, valid);
  if (!near.empty()) return "; did you mean \"" + near + "\"?";
  std::string text = "; valid:";
  for (const std::string& name : valid)
    text += " " + name;
  return text;
}

/// An error when `object` has a key beyond `valid`.
Status check_keys(const std::string& place, const Json& object,
                  const std::set<std::string>& valid) {
  for (const auto& [key, value] : object.items()) {
    if (valid.count(key) == 0)
      return wrong(place, "unknown key " + quote(key) + choices(key, valid));
  }
  return {};
}

/// A JSON value as one of the option's type; none when it is of another.
std::optional<Value> value_of(PluginOption::Type type, const Json& value) {
  switch (type) {
  case PluginOption::Type::integer:
    if (value.is_number_unsigned() &&
        value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
      return std::nullopt;
    }
    if (value.is_number_integer()) return value.get<std::int64_t>();
    return std::nullopt;
  case PluginOption::Type::number:
    if (value.is_number()) return value.get<double>();
    return std::nullopt;
  case PluginOption::Type::boolean:
    if (value.is_boolean()) return value.get<bool>();
    return std::nullopt;
  case PluginOption::Type::text:
    if (value.is_string()) return value.get<std::string>();
    return std::nullopt;
  }
  return std::nullopt;
}

bool has_bounds(PluginOption::Type type) {
  return type == PluginOption::Type::integer || type == PluginOption::Type::number;
}

/// Reads `key` of a property into `out` when it is there.
Status read_value(const std::string& place, const Json& property, const char* key,
                  PluginOption::Type type, std::optional<Value>& out) {
  const auto found = property.find(key);
  if (found == property.end()) return {};
  out = value_of(type, *found);
  if (out) return {};
  return wrong(place, std::string(key) + " is " + found->dump() + ", expected " +
                          std::string(kTypes[static_cast<std::size_t>(type)]));
}

Result<PluginOption::Type> type_of(const std::string& place, const Json& property) {
  const auto found = property.find("type");
  const std::string word =
      found != property.end() && found->is_string() ? found->get<std::string>() : "";
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i] == word) return static_cast<PluginOption::Type>(i);
  }
  return wrong(place, "type is " + (found == property.end() ? "missing" : found->dump()) +
                          ", expected integer, number, boolean or string");
}

Status check_default(const std::string& place, const PluginOption& option) {
  if (!has_bounds(option.type) && (option.minimum || option.maximum)) {
    return wrong(place, "only an integer or a number has minimum and maximum");
  }
  if (option.minimum && option.maximum && *option.minimum > *option.maximum) {
    return wrong(place, "minimum is above maximum");
  }
  if (!option.fallback) return {};
  if ((option.minimum && *option.fallback < *option.minimum) ||
      (option.maximum && *option.fallback > *option.maximum)) {
    return wrong(place, "default is outside minimum and maximum");
  }
  return {};
}

Result<PluginOption> option_of(const std::string& name, const Json& property) {
  const std::string place = "properties." + name;
  if (!property.is_object()) return wrong(place, "expected an object");
  static const std::set<std::string> kKeys = {"type",    "default",     "minimum",
                                              "maximum", "description", "x-hot"};
  if (const Status status = check_keys(place, property, kKeys); !status.ok()) return status.error();
  PluginOption option;
  option.name = name;
  const auto type = type_of(place, property);
  if (!type.ok()) return type.error();
  option.type = *type;
  for (const auto& [key, out] :
       {std::pair{"default", &option.fallback}, std::pair{"minimum", &option.minimum},
        std::pair{"maximum", &option.maximum}}) {
    const Status status = read_value(place, property, key, option.type, *out);
    if (!status.ok()) return status.error();
  }
  if (const Status status = check_default(place, option); !status.ok()) return status.error();
  if (const auto text = property.find("description"); text != property.end()) {
    if (!text->is_string()) return wrong(place, "description is no text");
    option.description = text->get<std::string>();
  }
  if (const auto hot = property.find("x-hot"); hot != property.end()) {
    if (!hot->is_boolean())
      return wrong(place, "x-hot is " + hot->dump() + ", expected true or false");
    option.hot = hot->get<bool>();
  }
  return option;
}

/// Reads the option from the table, or leaves it out when neither side has a value.
void take(const PluginOption& option, OptionTable& given, Json& out) {
  const bool is_given = given.values().count(option.name) != 0;
  const auto fallback = [&]<class T>(T otherwise) {
    return option.fallback ? std::get<T>(*option.fallback) : otherwise;
  };
  const auto bound = [&]<class T>(const std::optional<Value>& one, T otherwise) {
    return one ? std::get<T>(*one) : otherwise;
  };
  Json value;
  switch (option.type) {
  case PluginOption::Type::integer: {
    using Limits = std::numeric_limits<std::int64_t>;
    value =
        given.integer(option.name, fallback(std::int64_t{0}), bound(option.minimum, Limits::min()),
                      bound(option.maximum, Limits::max()));
    break;
  }
  case PluginOption::Type::number: {
    using Limits = std::numeric_limits<double>;
    value = given.number(option.name, fallback(0.0), bound(option.minimum, Limits::lowest()),
                         bound(option.maximum, Limits::max()));
    break;
  }
  case PluginOption::Type::boolean:
    value = given.boolean(option.name, fallback(false));
    break;
  case PluginOption::Type::text:
    value = given.text(option.name, fallback(std::string()));
    break;
  }
  if (is_given || option.fallback) out[option.name] = std::move(value);
}

} // namespace

Result<PluginOptions> PluginOptions::parse(const std::string& schema) {
  PluginOptions options;
  if (schema.empty()) return options;
  const Json parsed = Json::parse(schema, nullptr, false);
  if (parsed.is_discarded() || !parsed.is_object()) return wrong("", "is no JSON object");
  static const std::set<std::string> kKeys = {"type",  "properties",           "$schema",
                                              "title", "additionalProperties", "description"};
  if (const Status status = check_keys("", parsed, kKeys); !status.ok()) return status.error();
  const auto type = parsed.find("type");
  if (type == parsed.end() || *type != "object") return wrong("", "type must be \"object\"");
  const auto properties = parsed.find("properties");
  if (properties == parsed.end()) return options;
  if (!properties->is_object()) return wrong("properties", "expected an object");
  for (const auto& [name, property] : properties->items()) {
    auto option = option_of(name, property);
    if (!option.ok()) return option.error();
    options.options_.push_back(std::move(option).value());
  }
  return options;
}

Result<std::string> PluginOptions::json_of(OptionTable given) const {
  Json out = Json::object();
  for (const PluginOption& option : options_)
    take(option, given, out);
  if (const Status status = given.finish(); !status.ok()) return status.error();
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

} // namespace troupe::actors
