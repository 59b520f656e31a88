// ChatRequest → the prompt of a V4.1 model, in segments that say where added tokens are matched.

#pragma once

#include "engine/text/chat_format.hpp"
#include "engine/text/chat_request.hpp"
#include "engine/text/tokenizer.hpp"

#include <string>
#include <vector>

namespace troupe::text {

/// Renders the prompt. Segments alternate; joined they are the prompt's text. Pure.
///
/// Errors: unsupported, when the format's dialect is not V4.1.
/// Source: the checkpoint's own encoder, as observed through deepseek-recipe 0.2.0.
Result<std::vector<PromptSegment>> render_chat(const ChatRequest& request,
                                               const ChatFormat& format);

/// Ok when the tokenizer has every token that the renderer writes; else names the first that it
/// lacks: its spelling would be encoded as ordinary text, and no answer would make sense.
///
/// @param tokenizer_path, format_path  the two files, for the message
Status check_markers(const Tokenizer& tokenizer, const ChatFormat& format,
                     const std::string& tokenizer_path, const std::string& format_path);

/// All segments as one text.
std::string prompt_text(const std::vector<PromptSegment>& segments);

} // namespace troupe::text
