#include "engine/text/json_schema.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_set>

namespace troupe::text {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::array<std::string_view, 7> kTypes = {"array",  "boolean", "integer", "null",
                                                    "number", "object",  "string"};
constexpr std::array<std::string_view, 9> kSchemas = {
    "items",         "additionalProperties", "not", "if", "then", "else", "contains",
    "propertyNames", "unevaluatedProperties"};
constexpr std::array<std::string_view, 5> kSchemaMaps = {"properties", "patternProperties", "$defs",
                                                         "definitions", "dependentSchemas"};
constexpr std::array<std::string_view, 4> kSchemaLists = {"anyOf", "oneOf", "allOf", "prefixItems"};
constexpr std::array<std::string_view, 7> kTexts = {"title", "description", "pattern", "format",
                                                    "$ref",  "$id",         "$comment"};
constexpr std::array<std::string_view, 4> kNumbers = {"minimum", "maximum", "exclusiveMinimum",
                                                      "exclusiveMaximum"};
constexpr std::array<std::string_view, 6> kCounts = {"minLength", "maxLength",     "minItems",
                                                     "maxItems",  "minProperties", "maxProperties"};

bool is_in(std::string_view name, Names names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Refusal check_type(const std::string& path, const JsonValue& value) {
  const std::string expected = "must be a type (string, number, integer, boolean, null, array, "
                               "object) or an array of types";
  if (const std::string* type = value.string()) {
    if (is_in(*type, kTypes)) return std::nullopt;
    return wrong_value(path, expected);
  }
  if (value.array() == nullptr || value.array()->empty()) return wrong_value(path, expected);
  std::unordered_set<std::string> seen;
  for (const JsonValue& item : *value.array()) {
    if (item.string() == nullptr || !is_in(*item.string(), kTypes) ||
        !seen.insert(*item.string()).second) {
      return wrong_value(path, expected);
    }
  }
  return std::nullopt;
}

Refusal check_required(const std::string& path, const JsonValue& value) {
  if (value.array() == nullptr) return wrong_type(path, value, "an array of names");
  std::unordered_set<std::string> seen;
  for (const JsonValue& item : *value.array()) {
    if (item.string() == nullptr) return wrong_type(path, item, "an array of names");
    if (!seen.insert(*item.string()).second) return wrong_value(path, "names a property twice");
  }
  return std::nullopt;
}

Refusal check_count(const std::string& path, const JsonValue& value) {
  if (!value.is_number()) return wrong_type(path, value, "an integer");
  if (value.number() < 0 || value.number() != std::floor(value.number())) {
    return wrong_value(path, "must be an integer of at least 0");
  }
  return std::nullopt;
}

Refusal check_keyword(const std::string& path, const JsonMember& member) {
  const JsonValue& value = member.value;
  if (member.key == "type") return check_type(path, value);
  if (member.key == "required") return check_required(path, value);
  if (member.key == "enum" && value.array() == nullptr) return wrong_type(path, value, "an array");
  if (is_in(member.key, kTexts) && value.string() == nullptr) {
    return wrong_type(path, value, "a string");
  }
  if (is_in(member.key, kNumbers) && !value.is_number()) {
    return wrong_type(path, value, "a number");
  }
  if (member.key == "multipleOf" && !(value.is_number() && value.number() > 0)) {
    return wrong_value(path, "must be a number above 0");
  }
  if (is_in(member.key, kCounts)) return check_count(path, value);
  if (is_in(member.key, kSchemas)) return check_schema(path, value);
  if (is_in(member.key, kSchemaMaps)) {
    if (value.object() == nullptr) return wrong_type(path, value, "an object");
    for (const JsonMember& inner : *value.object()) {
      if (Refusal no = check_schema(path_of(path, inner.key), inner.value)) return no;
    }
  }
  if (is_in(member.key, kSchemaLists)) {
    if (value.array() == nullptr) return wrong_type(path, value, "an array of schemas");
    if (value.array()->empty()) return wrong_value(path, "must not be empty");
    for (std::size_t i = 0; i < value.array()->size(); ++i) {
      if (Refusal no = check_schema(path_of(path, i), (*value.array())[i])) return no;
    }
  }
  return std::nullopt;
}

/// Copies the members of `from` that are in `names`, in that order.
void copy_members(const JsonValue& from, Names names, JsonValue::Object& to) {
  for (const std::string_view name : names) {
    const JsonValue* value = from.find(name);
    if (value != nullptr && !value->is_null()) to.push_back({std::string(name), *value});
  }
}

constexpr std::array<std::string_view, 1> kDescription = {"description"};
constexpr std::array<std::string_view, 4> kStringMembers = {"description", "pattern", "format",
                                                            "enum"};
constexpr std::array<std::string_view, 8> kNumberMembers = {
    "description",      "const",     "default", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf"};
constexpr std::array<std::string_view, 5> kStringFormats = {"email", "hostname", "ipv4", "ipv6",
                                                            "uuid"};

Refusal strict_node(const std::string& path, const JsonValue& schema, bool root, JsonValue& out);

/// `required` of a strict object is all of its properties.
Refusal check_strict_required(const std::string& path, const JsonValue& schema,
                              const JsonValue::Object& properties) {
  const JsonValue* required = schema.find("required");
  if (required == nullptr || required->is_null()) return std::nullopt;
  std::unordered_set<std::string_view> names;
  for (const JsonMember& property : properties)
    names.insert(property.key);
  std::size_t named = 0;
  for (const JsonValue& item : *required->array()) {
    if (!names.contains(*item.string())) {
      return wrong_value(path_of(path, "required"), "names a property that is not there");
    }
    ++named;
  }
  if (named == names.size()) return std::nullopt;
  return wrong_value(path_of(path, "required"), "must name all properties of a strict schema");
}

Refusal strict_object(const std::string& path, const JsonValue& schema, bool root,
                      JsonValue::Object& out) {
  const JsonValue* additional = schema.find("additionalProperties");
  if (additional != nullptr && !additional->is_null() &&
      (additional->boolean() == nullptr || *additional->boolean())) {
    return wrong_value(path_of(path, "additionalProperties"), "must be false in a strict schema");
  }
  static const JsonValue::Object kNone;
  const JsonValue* properties = schema.find("properties");
  const JsonValue::Object& members =
      properties == nullptr || properties->object() == nullptr ? kNone : *properties->object();
  if (members.empty() && !root) {
    return wrong_value(path, "is an object without properties, which cannot be strict");
  }
  if (Refusal no = check_strict_required(path, schema, members)) return no;
  JsonValue::Object strict_members;
  JsonValue::Array required;
  for (const JsonMember& property : members) {
    JsonValue strict;
    const std::string inner = path_of(path_of(path, "properties"), property.key);
    if (Refusal no = strict_node(inner, property.value, false, strict)) return no;
    strict_members.push_back({property.key, std::move(strict)});
    required.push_back(JsonValue(property.key));
  }
  out.push_back({"properties", JsonValue(std::move(strict_members))});
  out.push_back({"additionalProperties", JsonValue(false)});
  out.push_back({"required", JsonValue(std::move(required))});
  copy_members(schema, kDescription, out);
  return std::nullopt;
}

Refusal strict_typed(const std::string& path, const JsonValue& schema, const std::string& type,
                     bool root, JsonValue::Object& out) {
  out.push_back({"type", JsonValue(type)});
  if (type == "object") return strict_object(path, schema, root, out);
  if (type == "array") {
    const JsonValue* items = schema.find("items");
    if (items == nullptr) return missing_field(path_of(path, "items"), "the schema of the items");
    JsonValue strict;
    if (Refusal no = strict_node(path_of(path, "items"), *items, false, strict)) return no;
    out.push_back({"items", std::move(strict)});
    copy_members(schema, kDescription, out);
  } else if (type == "string") {
    const JsonValue* format = schema.find("format");
    if (format != nullptr && format->string() != nullptr &&
        !is_in(*format->string(), kStringFormats)) {
      return wrong_value(path_of(path, "format"),
                         "must be email, hostname, ipv4, ipv6 or uuid in a strict schema");
    }
    copy_members(schema, kStringMembers, out);
  } else if (type == "number" || type == "integer") {
    if (type == "integer") {
      for (const std::string_view name : Names(kNumberMembers).subspan(1)) {
        const JsonValue* value = schema.find(name);
        if (value != nullptr && !value->is_null() && !value->is_integer()) {
          return wrong_type(path_of(path, name), *value, "an integer");
        }
      }
    }
    copy_members(schema, kNumberMembers, out);
  } else {
    copy_members(schema, kDescription, out);
  }
  return std::nullopt;
}

Refusal strict_node(const std::string& path, const JsonValue& schema, bool root, JsonValue& out) {
  JsonValue::Object members;
  const JsonValue* type = schema.find("type");
  const JsonValue* any = schema.find("anyOf");
  const JsonValue* ref = schema.find("$ref");
  if (type != nullptr && type->string() != nullptr) {
    if (Refusal no = strict_typed(path, schema, *type->string(), root, members)) return no;
  } else if (type != nullptr) {
    members.push_back({"type", *type});
    copy_members(schema, kDescription, members);
  } else if (any != nullptr) {
    JsonValue::Array choices;
    for (std::size_t i = 0; i < any->array()->size(); ++i) {
      JsonValue choice;
      const std::string inner = path_of(path_of(path, "anyOf"), i);
      if (Refusal no = strict_node(inner, (*any->array())[i], false, choice)) return no;
      choices.push_back(std::move(choice));
    }
    members.push_back({"anyOf", JsonValue(std::move(choices))});
    copy_members(schema, kDescription, members);
  } else if (ref != nullptr) {
    members.push_back({"$ref", *ref});
  } else {
    return wrong_value(path, "needs one of type, anyOf and $ref in a strict schema");
  }
  out = JsonValue(std::move(members));
  return std::nullopt;
}

} // namespace

Refusal check_schema(const std::string& path, const JsonValue& schema) {
  if (schema.boolean() != nullptr) return std::nullopt;
  if (schema.object() == nullptr)
    return wrong_type(path, schema, "a schema: an object, true, false");
  for (const JsonMember& member : *schema.object()) {
    if (Refusal no = check_keyword(path_of(path, member.key), member)) return no;
  }
  return std::nullopt;
}

Refusal strict_schema(const std::string& path, const JsonValue& schema, JsonValue& out) {
  if (Refusal no = check_schema(path, schema)) return no;
  return strict_node(path, schema, true, out);
}

} // namespace troupe::text
