// Goal: any cut of an output gives the recorded result, and everything leaves as early as it can.
// Method: recorded outputs whole, at every split into two, by characters and by bytes.

#include "engine/text/output_parser.hpp"
#include "tests/engine/text/text_fixtures.hpp"

#include <gtest/gtest.h>

#include <map>

namespace troupe::text {
namespace {

using Events = std::vector<OutputEvent>;

/// One recorded output.
struct Case {
  std::string id;
  std::string text;
  ParserOptions options;
  GenerationEnd end = GenerationEnd::stop;
  const JsonValue* row = nullptr;
};

Case case_from(const JsonValue& row) {
  Case c;
  c.id = text_of(row, "id");
  c.text = text_of(row, "text");
  c.row = &row;
  const std::string end = text_of(row, "finish");
  if (end == "Length") c.end = GenerationEnd::length;
  if (end == "ContentFilter") c.end = GenerationEnd::content_filter;
  const JsonValue& options = *row.find("options");
  const std::map<std::string, InitialStage> stages = {
      {"ReasoningStart", InitialStage::reasoning},
      {"ReasoningContinuation", InitialStage::reasoning_continuation},
      {"ContentContinuation", InitialStage::answer_continuation}};
  if (const JsonValue* stage = options.find("thinking_initial_stage")) {
    c.options.initial_stage = stages.at(*stage->string());
  }
  if (options.find("starts_in_tool_calls") != nullptr) {
    c.options.initial_stage = InitialStage::tool_calls;
  }
  if (const JsonValue* parse = options.find("parse_tool_calls")) {
    c.options.parse_tool_calls = *parse->boolean();
  }
  if (const JsonValue* stops = options.find("stop_sequences")) {
    for (const JsonValue& stop : *stops->array()) {
      c.options.stop_strings.push_back(*stop.string());
    }
  }
  return c;
}

/// Feeds the pieces; neighbouring events of one kind become one.
Events parse(const Case& c, const std::vector<std::string>& pieces) {
  OutputParser parser(c.options);
  Events all;
  for (const std::string& piece : pieces)
    parser.push(piece, all);
  parser.finish(c.end, all);
  Events merged;
  for (const OutputEvent& event : all) {
    const bool joins = !merged.empty() && event.kind != OutputKind::call &&
                       merged.back().kind == event.kind &&
                       merged.back().call_index == event.call_index;
    if (joins) {
      merged.back().text += event.text;
    } else {
      merged.push_back(event);
    }
  }
  return merged;
}

/// The recorded stream as events.
Events recorded(const JsonValue& row) {
  Events events;
  for (const JsonValue& item : *row.find("stream")->array()) {
    const JsonValue::Array& fields = *item.array();
    const std::string& kind = *fields[0].string();
    const std::string& text = *fields.back().string();
    OutputEvent event;
    event.text = text;
    if (fields.size() == 3) event.call_index = static_cast<std::int64_t>(fields[1].number());
    if (kind == "reasoning") event.kind = OutputKind::reasoning;
    if (kind == "call") event.kind = OutputKind::call;
    if (kind == "args") event.kind = OutputKind::arguments;
    if (kind == "finish") {
      event.kind = OutputKind::finish;
      event.text.clear();
      for (const FinishReason reason : {FinishReason::stop, FinishReason::length,
                                        FinishReason::content_filter, FinishReason::tool_calls}) {
        if (finish_reason_name(reason) == text) event.finish = reason;
      }
    }
    events.push_back(event);
  }
  return events;
}

ParsedOutput collected(const Events& events) {
  ParsedOutput output;
  for (const OutputEvent& event : events)
    output.add(event);
  return output;
}

/// Arguments that must come out where the recording has a known defect.
void expect_required_arguments(const JsonValue& required, const ParsedOutput& output) {
  ASSERT_EQ(required.array()->size(), output.tool_calls.size());
  for (std::size_t i = 0; i < output.tool_calls.size(); ++i) {
    const Result<JsonValue> got = parse_json(output.tool_calls[i].arguments);
    ASSERT_TRUE(got.ok()) << output.tool_calls[i].arguments;
    EXPECT_EQ(python_json(*got), python_json((*required.array())[i]));
  }
}

std::size_t characters_in(const std::string& text) { return characters(text).size(); }

/// What was out after how many characters, as in the recording: a row per change.
std::vector<std::vector<std::size_t>> profile_of(const Case& c, std::size_t& consumed) {
  OutputParser parser(c.options);
  std::vector<std::vector<std::size_t>> rows;
  std::vector<std::size_t> now(4);
  consumed = 0;
  for (const std::string& character : characters(c.text)) {
    if (parser.stopped()) break;
    ++consumed;
    Events events;
    parser.push(character, events);
    for (const OutputEvent& event : events) {
      if (event.kind == OutputKind::reasoning) now[0] += characters_in(event.text);
      if (event.kind == OutputKind::content) now[1] += characters_in(event.text);
      if (event.kind == OutputKind::call) ++now[2];
      if (event.kind == OutputKind::arguments) now[3] += characters_in(event.text);
    }
    std::vector<std::size_t> row{consumed};
    row.insert(row.end(), now.begin(), now.end());
    const bool same = !rows.empty() && std::equal(now.begin(), now.end(), rows.back().begin() + 1);
    if (!same) rows.push_back(row);
  }
  return rows;
}

void expect_profile(const Case& c) {
  std::vector<std::vector<std::size_t>> expected;
  for (const JsonValue& item : *c.row->find("profile")->array()) {
    std::vector<std::size_t> row;
    for (const JsonValue& number : *item.array()) {
      row.push_back(static_cast<std::size_t>(number.number()));
    }
    expected.push_back(row);
  }
  std::size_t consumed = 0;
  EXPECT_EQ(profile_of(c, consumed), expected);
  EXPECT_EQ(static_cast<double>(consumed), c.row->find("consumed")->number());
}

std::vector<std::string> bytes_of(const std::string& text) {
  std::vector<std::string> bytes;
  for (const char c : text)
    bytes.emplace_back(1, c);
  return bytes;
}

/// Returns the number of rows checked.
int check_rows(const std::vector<JsonValue>& rows) {
  int checked = 0;
  for (const JsonValue& row : rows) {
    if (text_of(row, "group") == "json") continue; // Answers are not held to a format here.
    const Case c = case_from(row);
    SCOPED_TRACE(c.id);
    const Events whole = parse(c, {c.text});
    if (const JsonValue* required = row.find("required_arguments")) {
      expect_required_arguments(*required, collected(whole));
    }
    if (row.find("arguments_not_json") == nullptr || row.find("required_arguments") == nullptr) {
      EXPECT_EQ(whole, recorded(row));
      expect_profile(c);
    }
    for (std::size_t at = 1; at < c.text.size(); ++at) {
      EXPECT_EQ(parse(c, {c.text.substr(0, at), c.text.substr(at)}), whole) << at;
    }
    EXPECT_EQ(parse(c, characters(c.text)), whole);
    EXPECT_EQ(parse(c, bytes_of(c.text)), whole);
    ++checked;
  }
  return checked;
}

TEST(OutputParser, CommittedOutputs) {
  EXPECT_GE(check_rows(read_rows(vector_path("parse.jsonl"))), 40);
}

TEST(OutputParser, AllRecordedOutputs) {
  const auto rows = shared_path("goldens/recipe/parse.jsonl.gz");
  if (!rows) GTEST_SKIP() << "no shared folder";
  EXPECT_EQ(check_rows(read_rows(*rows)), 116);
}

ParsedOutput parsed(const ParserOptions& options, const std::vector<std::string>& pieces) {
  Case c;
  c.options = options;
  return collected(parse(c, pieces));
}

TEST(OutputParser, StopStringsOverAnySplit) {
  ParserOptions options;
  options.stop_strings = {"DEFGHIJ"};
  EXPECT_EQ(parsed(options, {"ABC DEF", "G", "HI", "JK"}).content, "ABC ");
  EXPECT_EQ(parsed(options, {"ABC DEF", "G", "HI"}).content, "ABC DEFGHI");
  options.stop_strings = {"\n"};
  EXPECT_EQ(parsed(options, {"is it?"}).content, "is it?");
  options.stop_strings = {"beta gamma"};
  EXPECT_EQ(parsed(options, {"alpha bet", "a ga", "mma delta"}).content, "alpha ");
}

TEST(OutputParser, StopStringThatSharesLettersWithAMarker) {
  ParserOptions options;
  options.initial_stage = InitialStage::reasoning;
  options.stop_strings = {"</t"};
  const ParsedOutput output = parsed(options, {"why</th", "ink>because</", "table>"});
  EXPECT_EQ(output.reasoning, "why");
  EXPECT_EQ(output.content, "because");
}

TEST(OutputParser, OfTwoStopsThatEndTogetherTheFirstCounts) {
  ParserOptions options;
  options.stop_strings = {"OPST", "STOPST"};
  EXPECT_EQ(parsed(options, {"xSTOPSTy"}).content, "xST");
  options.stop_strings = {"STOPST", "OPST"};
  EXPECT_EQ(parsed(options, {"xSTOPSTy"}).content, "x");
}

TEST(OutputParser, RawStageKeepsEverything) {
  ParserOptions options;
  options.initial_stage = InitialStage::raw;
  const std::string text = "\n\nr</think>a\n\n<｜DSML｜ calls>\n";
  EXPECT_EQ(parsed(options, bytes_of(text)).content, text);
  options.stop_strings = {"</th"};
  EXPECT_EQ(parsed(options, bytes_of(text)).content, "\n\nr");
}

TEST(OutputParser, BrokenBytesBecomeReplacements) {
  const ParserOptions options;
  EXPECT_EQ(parsed(options, {"a\xF0\x9F", "\x98"}).content, "a\uFFFD");
  EXPECT_EQ(parsed(options, {"a\xFF", "b"}).content, "a\uFFFDb");
}

TEST(OutputParser, EventsOfOnePushDoNotTouchEarlierOnes) {
  OutputParser parser(ParserOptions{});
  Events events;
  parser.push("ab", events);
  parser.push("cd", events);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].text, "ab");
  EXPECT_EQ(events[1].text, "cd");
}

TEST(OutputParser, NamesGiveValidJson) {
  const auto arguments = [](const std::string& name) {
    const std::string text =
        "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter name=\"" + name +
        "\" string=\"true\">v</｜DSML｜ parameter>\n</｜DSML｜ invoke>";
    return parsed(ParserOptions{}, bytes_of(text)).tool_calls.at(0).arguments;
  };
  EXPECT_EQ(arguments("two words"), R"({"two words": "v"})");
  EXPECT_EQ(arguments("line\nend"), R"({"line\nend": "v"})");
  EXPECT_EQ(arguments(" string= mode "), R"({" string= mode ": "v"})");
  EXPECT_EQ(arguments(R"(a\qb)"), R"({"a\\qb": "v"})");
  EXPECT_EQ(arguments(R"(a\u12zb)"), R"({"a\\u12zb": "v"})");
  EXPECT_EQ(arguments(R"(a\u00e9b)"), R"({"a\u00e9b": "v"})");
}

} // namespace
} // namespace troupe::text
