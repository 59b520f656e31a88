// Options of a library: the schema is read strictly, what a user wrote is checked against it.

#include "actors/plugin_options.hpp"

#include <gtest/gtest.h>

namespace troupe::actors {
namespace {

std::string schema_of(const std::string& properties) {
  return R"({"type": "object", "properties": {)" + properties + "}}";
}

std::string schema_error(const std::string& properties) {
  const auto parsed = PluginOptions::parse(schema_of(properties));
  return parsed.ok() ? "" : parsed.error().message;
}

PluginOptions sample() {
  auto parsed = PluginOptions::parse(schema_of(
      R"("alpha": {"type": "integer", "default": 3, "minimum": 0, "maximum": 10,
                   "description": "How much.", "x-hot": true},
         "share": {"type": "number", "minimum": 0, "maximum": 1},
         "fast": {"type": "boolean", "default": false},
         "word": {"type": "string", "default": "a \"b\""})"));
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return std::move(parsed).value();
}

std::string json(OptionTable given) {
  const auto made = sample().json_of(std::move(given));
  return made.ok() ? *made : "error: " + made.error().message;
}

OptionTable table(const std::string& key, OptionValue value) {
  OptionTable options("queue");
  options.set(key, std::move(value));
  return options;
}

TEST(PluginOptions, DefaultsAreFilledInAndWhatHasNoneIsLeftOut) {
  EXPECT_EQ(json(OptionTable("queue")), R"({"alpha":3,"fast":false,"word":"a \"b\""})");
  EXPECT_EQ(json(table("share", {0.5, ""})),
            R"({"alpha":3,"share":0.5,"fast":false,"word":"a \"b\""})");
  EXPECT_EQ(json(table("alpha", {std::int64_t{10}, ""})),
            R"({"alpha":10,"fast":false,"word":"a \"b\""})");
}

TEST(PluginOptions, WhatIsReadIsWhatTheSchemaSays) {
  const PluginOptions options = sample();
  ASSERT_EQ(options.all().size(), 4U);
  const PluginOption& alpha = options.all()[0];
  EXPECT_EQ(alpha.name, "alpha");
  EXPECT_EQ(alpha.type, PluginOption::Type::integer);
  EXPECT_EQ(std::get<std::int64_t>(*alpha.fallback), 3);
  EXPECT_EQ(std::get<std::int64_t>(*alpha.maximum), 10);
  EXPECT_EQ(alpha.description, "How much.");
  EXPECT_TRUE(alpha.hot);
  EXPECT_FALSE(options.all()[1].hot);
}

TEST(PluginOptions, WrongOptionsAreErrorsWithTheirPlace) {
  EXPECT_EQ(json(table("alhpa", {std::int64_t{1}, "p.toml:7"})),
            "error: p.toml:7: queue.alhpa: unknown key; did you mean \"alpha\"?");
  EXPECT_EQ(json(table("alpha", {std::int64_t{11}, "p.toml:7"})),
            "error: p.toml:7: queue.alpha: found 11, expected a whole number from 0 to 10");
  EXPECT_EQ(json(table("alpha", {std::string("x"), "p.toml:7"})),
            "error: p.toml:7: queue.alpha: found \"x\", expected a whole number from 0 to 10");
  EXPECT_EQ(json(table("share", {1.5, "p.toml:8"})),
            "error: p.toml:8: queue.share: found 1.5, expected a number from 0 up to 1");
  EXPECT_EQ(json(table("fast", {std::int64_t{1}, "p.toml:9"})),
            "error: p.toml:9: queue.fast: found 1, expected true or false");
}

TEST(PluginOptions, NoSchemaTakesNoOptions) {
  const auto none = PluginOptions::parse("");
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none->json_of(OptionTable("step")), "{}");
  EXPECT_EQ(none->json_of(table("alpha", {std::int64_t{1}, "p.toml:2"})).error().message,
            "p.toml:2: queue.alpha: unknown key; this table takes no options");
}

TEST(PluginOptions, ASchemaThatIsNotOneIsRefused) {
  const auto error = [](const char* text) {
    const auto parsed = PluginOptions::parse(text);
    return parsed.ok() ? "" : parsed.error().message;
  };
  EXPECT_EQ(error("{"), "options_schema: is no JSON object");
  EXPECT_EQ(error("[]"), "options_schema: is no JSON object");
  EXPECT_EQ(error("{}"), "options_schema: type must be \"object\"");
  EXPECT_EQ(error(R"({"type": "object", "properties": 5})"),
            "options_schema.properties: expected an object");
  EXPECT_EQ(error(R"({"type": "object", "propertys": {}})"),
            "options_schema: unknown key \"propertys\"; did you mean \"properties\"?");
  EXPECT_EQ(schema_error(R"("a": {"type": "text"})"),
            "options_schema.properties.a: type is \"text\", expected integer, number, boolean or "
            "string");
  EXPECT_EQ(schema_error(R"("a": {"default": 3})"),
            "options_schema.properties.a: type is missing, expected integer, number, boolean or "
            "string");
  EXPECT_EQ(schema_error(R"("a": 5)"), "options_schema.properties.a: expected an object");
  EXPECT_EQ(schema_error(R"("a": {"type": "integer", "default": 1.5})"),
            "options_schema.properties.a: default is 1.5, expected integer");
  EXPECT_EQ(schema_error(R"("a": {"type": "integer", "default": 18446744073709551615})"),
            "options_schema.properties.a: default is 18446744073709551615, expected integer");
  EXPECT_EQ(schema_error(R"("a": {"type": "integer", "default": 5, "maximum": 4})"),
            "options_schema.properties.a: default is outside minimum and maximum");
  EXPECT_EQ(schema_error(R"("a": {"type": "number", "minimum": 5, "maximum": 4})"),
            "options_schema.properties.a: minimum is above maximum");
  EXPECT_EQ(schema_error(R"("a": {"type": "string", "minimum": "x"})"),
            "options_schema.properties.a: only an integer or a number has minimum and maximum");
  EXPECT_EQ(schema_error(R"("a": {"type": "integer", "enum": [1]})"),
            "options_schema.properties.a: unknown key \"enum\"; valid: default description maximum "
            "minimum type x-hot");
  EXPECT_EQ(schema_error(R"("a": {"type": "integer", "x-hot": 1})"),
            "options_schema.properties.a: x-hot is 1, expected true or false");
  EXPECT_EQ(schema_error(R"("a": {"type": "integer", "description": 1})"),
            "options_schema.properties.a: description is no text");
}

} // namespace
} // namespace troupe::actors
