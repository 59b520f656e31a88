// Model output → reasoning, answer, tool calls, as it arrives.
//
// The parser sees bytes, never token boundaries: any cut of the same output gives the same text in
// the same order. It holds back only what could still become a marker or a stop string.

#pragma once

#include "schedulers/core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text {

/// Most stop strings a request may have.
inline constexpr std::size_t kStopStringsMax = 16;

/// Where an output begins.
enum class InitialStage : std::uint8_t {
  answer,                 ///< Without thinking; leading newlines are dropped.
  reasoning,              ///< After `<think>`; leading newlines are dropped.
  reasoning_continuation, ///< Inside reasoning that the prompt began.
  answer_continuation,    ///< Inside an answer that the prompt began.
  tool_calls,             ///< Inside a block of calls that the prompt opened.
  raw,                    ///< No markup at all: everything is answer text (/v1/completions).
};

/// How to parse one output.
struct ParserOptions {
  InitialStage initial_stage = InitialStage::answer;
  bool parse_tool_calls = true;          ///< Else tool markup is text.
  std::vector<std::string> stop_strings; ///< At most kStopStringsMax, none empty; UTF-8.
};

enum class OutputKind : std::uint8_t { reasoning, content, call, arguments, finish };

/// Why a generation ended, as the back end says.
enum class GenerationEnd : std::uint8_t { stop, length, content_filter };

/// Why a choice ended, as the client reads it.
enum class FinishReason : std::uint8_t { stop, length, content_filter, tool_calls };

/// Spelling in the API: "stop", "length", "content_filter", "tool_calls".
std::string_view finish_reason_name(FinishReason reason) noexcept;

/// A piece of parsed output.
struct OutputEvent {
  OutputKind kind = OutputKind::content;
  std::int64_t call_index = 0; ///< call, arguments: number of the call, from 0.
  std::string text;            ///< reasoning, content: text; call: function name; arguments: JSON.
  FinishReason finish = FinishReason::stop; ///< finish

  bool operator==(const OutputEvent&) const = default;
};

/// Streaming parser of one output. Both tool-call dialects are recognised.
///
///   Cost    O(1) per byte; memory of the longest marker or stop string, plus an open tag's name
///           and the newlines right before what may become a marker
///   Errors  none: malformed markup gives what can be made of it
class OutputParser {
public:
  /// @pre stop strings obey ParserOptions
  explicit OutputParser(const ParserOptions& options);
  ~OutputParser();
  OutputParser(OutputParser&&) noexcept;
  OutputParser& operator=(OutputParser&&) noexcept;

  /// Takes the next bytes (of any cut, also inside a character) and appends what they release.
  /// After a stop string nothing more is taken.
  void push(std::string_view bytes, std::vector<OutputEvent>& out);

  /// Whether a stop string that completes from here on ends the output (it does at first): a client
  /// that asked for a minimum of tokens gets them.
  void set_stops(bool active) noexcept;

  /// True once a stop string was found: the generation may end, what follows is dropped.
  bool stopped() const noexcept;

  /// Ends the output: releases what was held and appends exactly one finish event. With a stop
  /// string found the reason is stop, else tool calls make it tool_calls unless `end` is length
  /// or content_filter.
  void finish(GenerationEnd end, std::vector<OutputEvent>& out);

private:
  class Machine;
  std::unique_ptr<Machine> machine_;
};

/// A whole output, parsed.
struct ParsedCall {
  std::string name;
  std::string arguments;

  bool operator==(const ParsedCall&) const = default;
};
struct ParsedOutput {
  std::string reasoning;
  std::string content;
  std::vector<ParsedCall> tool_calls;
  FinishReason finish = FinishReason::stop;

  /// Adds an event.
  void add(const OutputEvent& event);
};

} // namespace troupe::text
