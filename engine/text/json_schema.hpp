// JSON Schema of tools and response formats: shape checks, and the strict form that is rendered.

#pragma once

#include "engine/text/json_value.hpp"
#include "engine/text/request_error.hpp"

#include <string>

namespace troupe::text {

/// Refuses what is no JSON Schema by the types of its keywords. It does not resolve references.
Refusal check_schema(const std::string& path, const JsonValue& schema);

/// Rewrites an object schema as strict tools are rendered: the known keywords in a fixed order, all
/// properties required, no others allowed.
///
/// Refuses what cannot be strict: a property without type, anyOf or $ref, a `required` that does
/// not name all properties, additional properties.
Refusal strict_schema(const std::string& path, const JsonValue& schema, JsonValue& out);

} // namespace troupe::text
