// Text of a job's lines, without actors: body → token ids, token ids → answer line.
//
// Stop strings act on answer text only; tokens after the one that completes a stop string are
// dropped, however many have arrived, so an answer does not depend on timing.

#pragma once

#include "actors/messages.hpp"
#include "engine/text/chat_format.hpp"
#include "engine/text/tokenizer.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe::app {

/// What holds for all lines of a job.
struct TextOptions {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::optional<text::ChatFormat> format; ///< None: chat requests are refused.
  std::string job_id;
  std::int64_t created_s = 0;
  std::uint64_t seed = 1;            ///< cluster.seed
  std::int64_t vocab = 0;            ///< Rows of the model's embedding.
  std::int64_t context_max = 0;      ///< Tokens of prompt and answer.
  std::vector<std::int32_t> eos_ids; ///< End of sequence; not drawn before min_tokens.
  // For fields a request leaves out.
  double temperature = 1.0;
  double top_p = 1.0;
  std::int64_t top_k = 0;
  bool thinking = true;
  std::int64_t max_tokens_chat = 8192;
  std::int64_t max_tokens_thinking = 65536;
  std::int64_t max_tokens_effort_max = 131072;
  std::int64_t max_tokens_completion = 16;
  bool reject_missing_reasoning = false;
  std::int64_t choices_max = 128;
};

/// Hears parsed output as it comes: kind ("reasoning", "content", "call", "arguments") and text.
using PieceSink = std::function<void(const char* kind, const std::string& text)>;

/// All lines in work. Thread: one owner. Memory: that of the lines in work.
class TextDesk {
public:
  TextDesk(TextOptions options, PieceSink pieces);
  ~TextDesk();

  /// Parses, renders and tokenises a line: its requests, or its error line.
  struct Outcome {
    std::vector<actors::RenderedChoice> choices;
    std::optional<actors::Answer> answer;
  };
  Outcome render(const actors::JobLine& line);

  /// New tokens of a request, in order. True once: when a stop string was just found.
  bool detokenise(RequestId request, std::span<const sched::TokenRow> rows);

  /// A request ended. The line's answer when it was the last one.
  std::optional<actors::Answer> complete(const actors::Complete& end);

  void drop(std::int64_t line);
  std::int64_t lines() const noexcept { return static_cast<std::int64_t>(lines_.size()); }

private:
  struct Line;
  struct Choice;

  Choice* find(RequestId request);
  actors::Answer refuse(const actors::JobLine& line, std::int32_t status, const std::string& body);
  Outcome start_choices(std::unique_ptr<Line> line);
  sched::Work work_of(const Line& line, std::vector<std::int32_t> prompt,
                      std::int64_t choice) const;
  std::int64_t new_tokens_max(const Line& line, std::int64_t prompt_tokens) const;
  actors::Answer answer(Line& line);

  TextOptions options_;
  PieceSink pieces_;
  std::optional<std::int32_t> think_end_;
  std::map<std::int64_t, std::unique_ptr<Line>> lines_;
};

} // namespace troupe::app
