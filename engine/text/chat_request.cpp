#include "engine/text/chat_request.hpp"

namespace troupe::text {

ParserOptions parser_options(const ChatRequest& request) {
  ParserOptions options;
  options.parse_tool_calls = request.offers_tools();
  const ChatMessage& last = request.messages.back();
  if (request.forces_call()) {
    options.initial_stage = InitialStage::tool_calls;
  } else if (!request.thinking) {
    options.initial_stage = InitialStage::answer;
  } else if (last.prefix && !last.content.empty()) {
    options.initial_stage = InitialStage::answer_continuation;
  } else if (last.prefix && !last.reasoning.empty()) {
    options.initial_stage = InitialStage::reasoning_continuation;
  } else {
    options.initial_stage = InitialStage::reasoning;
  }
  return options;
}

} // namespace troupe::text
