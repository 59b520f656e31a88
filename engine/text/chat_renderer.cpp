#include "engine/text/chat_renderer.hpp"

#include "engine/text/json_value.hpp"
#include "schedulers/core/printable.hpp"

#include <algorithm>
#include <unordered_map>

namespace troupe::text {
namespace {

/// Collects segments; neighbours of one kind become one.
class Prompt {
public:
  /// Text of the client.
  void plain(std::string_view text) { add(text, false); }
  /// Tokens and texts of the format.
  void special(std::string_view text) { add(text, true); }

  std::vector<PromptSegment> take() { return std::move(segments_); }

private:
  void add(std::string_view text, bool is_special) {
    if (text.empty()) return;
    if (segments_.empty() || segments_.back().is_special != is_special) {
      segments_.push_back({{}, is_special});
    }
    segments_.back().text += text;
  }

  std::vector<PromptSegment> segments_;
};

/// Renders one conversation.
class Renderer {
public:
  Renderer(const ChatRequest& request, const ChatFormat& format)
      : request_(request), format_(format), tags_(dsml_tags(format.dialect)) {
    for (const ChatMessage& message : request.messages) {
      const bool is_void = message.role == Role::system && message.content.empty();
      // Of reminders in a row the original keeps the first only.
      const bool repeats = message.role == Role::latest_reminder && !messages_.empty() &&
                           messages_.back()->role == Role::latest_reminder;
      if (!is_void && !repeats) messages_.push_back(&message);
    }
  }

  std::vector<PromptSegment> render() {
    prompt_.special(kBeginOfSentence);
    std::size_t next = render_head();
    while (next < messages_.size())
      next = render_turn(next);
    if (!request_.messages.back().prefix) {
      prompt_.special(kAssistantToken);
      prompt_.special(request_.thinking ? kThinkBegin : kThinkEnd);
      if (request_.forces_call()) {
        prompt_.plain("\n\n");
        open_tag(tags_.block, "");
        prompt_.plain("\n");
      }
    }
    return prompt_.take();
  }

private:
  /// The system block; returns the index of the first message after it.
  std::size_t render_head() {
    const bool own = !messages_.empty() && messages_.front()->role == Role::system;
    const bool tools = request_.offers_tools();
    const bool format = request_.response_format.kind == ResponseFormatKind::json_object ||
                        request_.response_format.kind == ResponseFormatKind::json_schema;
    const bool effort = request_.thinking && !messages_.empty();
    if (!own && !tools && !format && !effort) return 0;
    prompt_.special(kSystemToken);
    if (request_.thinking) {
      std::string line = format_.effort_line;
      line.replace(line.find("{n}"), 3, std::to_string(request_.effort));
      prompt_.special(line);
    }
    if (own) prompt_.plain(messages_.front()->content);
    if (tools) render_tools();
    if (format) {
      prompt_.plain("\n\n");
      prompt_.special(format_.response_format_header);
      prompt_.plain(request_.response_format.schema_line);
    }
    return own ? 1 : 0;
  }

  void render_tools() {
    prompt_.plain("\n\n");
    prompt_.special(format_.tools_header);
    bool first = true;
    for (const ChatTool& tool : request_.tools) {
      if (request_.forces_call() && request_.tool_choice == ToolChoice::function &&
          tool.name != request_.tool_choice_name) {
        continue;
      }
      if (!first) prompt_.plain("\n");
      prompt_.plain(tool.schema_line);
      first = false;
    }
    prompt_.special(format_.tools_footer);
  }

  /// Renders the message at `index`, with what joins it into one turn; returns the next index.
  std::size_t render_turn(std::size_t index) {
    const ChatMessage& message = *messages_[index];
    switch (message.role) {
    case Role::system:
      prompt_.special(kSystemToken);
      prompt_.plain(message.content);
      return index + 1;
    case Role::latest_reminder:
      prompt_.special(kReminderToken);
      prompt_.plain(message.content);
      return index + 1;
    case Role::assistant:
      render_assistant(message);
      return index + 1;
    case Role::user:
    case Role::tool:
      break;
    }
    return render_user_turn(index);
  }

  /// User messages and results that follow each other are one turn; results in the order of calls.
  std::size_t render_user_turn(std::size_t begin) {
    std::size_t end = begin;
    while (end < messages_.size() &&
           (messages_[end]->role == Role::user || messages_[end]->role == Role::tool)) {
      ++end;
    }
    std::vector<const ChatMessage*> blocks(messages_.begin() + static_cast<std::ptrdiff_t>(begin),
                                           messages_.begin() + static_cast<std::ptrdiff_t>(end));
    if (begin > 0 && messages_[begin - 1]->role == Role::assistant) {
      std::unordered_map<std::string_view, std::size_t> order;
      for (const ToolCall& call : messages_[begin - 1]->tool_calls) {
        order.emplace(call.id, order.size());
      }
      const auto after = std::find_if(blocks.begin(), blocks.end(), [](const ChatMessage* block) {
        return block->role != Role::tool;
      });
      std::stable_sort(blocks.begin(), after, [&](const ChatMessage* a, const ChatMessage* b) {
        return order[a->tool_call_id] < order[b->tool_call_id];
      });
    }
    prompt_.special(kUserToken);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (i > 0) prompt_.plain("\n\n");
      const bool result = blocks[i]->role == Role::tool;
      if (result) prompt_.plain("<tool_result>");
      prompt_.plain(blocks[i]->content);
      if (result) prompt_.plain("</tool_result>");
    }
    return end;
  }

  void render_assistant(const ChatMessage& message) {
    prompt_.special(kAssistantToken);
    // Reasoning of the history stays only where calls may follow from it; a prefix brings its own,
    // unless nothing stands before it.
    const bool continues = message.prefix && messages_.front() != &message;
    if (request_.thinking && (continues || request_.offers_tools())) {
      prompt_.special(kThinkBegin);
      prompt_.plain(message.reasoning);
      const bool open = message.prefix && message.content.empty();
      if (!open) prompt_.special(kThinkEnd);
    } else {
      prompt_.special(kThinkEnd);
    }
    prompt_.plain(message.content);
    if (!message.tool_calls.empty()) render_calls(message.tool_calls);
    if (!message.prefix) prompt_.special(kEndOfSentence);
  }

  void render_calls(const std::vector<ToolCall>& calls) {
    prompt_.plain("\n\n");
    open_tag(tags_.block, "");
    for (const ToolCall& call : calls) {
      prompt_.plain("\n");
      open_tag(tags_.invoke, " name=\"" + call.name + "\"");
      prompt_.plain("\n");
      render_arguments(call.arguments);
      prompt_.plain("\n");
      close_tag(tags_.invoke);
    }
    prompt_.plain("\n");
    close_tag(tags_.block);
  }

  /// One parameter a member; what is no JSON object becomes one parameter with the raw text.
  void render_arguments(const std::string& arguments) {
    const Result<JsonValue> parsed = parse_json(arguments);
    const JsonValue::Object* members = parsed.ok() ? parsed.value().object() : nullptr;
    if (members == nullptr) return render_parameter("arguments", true, arguments);
    bool first = true;
    for (const JsonMember& member : *members) {
      if (!first) prompt_.plain("\n");
      first = false;
      const std::string* text = member.value.string();
      render_parameter(member.key, text != nullptr,
                       text != nullptr ? *text : python_json(member.value));
    }
  }

  void render_parameter(const std::string& name, bool is_string, const std::string& value) {
    const char* flag = is_string ? "\" string=\"true\"" : "\" string=\"false\"";
    open_tag(tags_.parameter, " name=\"" + name + flag);
    prompt_.plain(value);
    close_tag(tags_.parameter);
  }

  void open_tag(std::string_view name, const std::string& attributes) {
    prompt_.plain("<");
    prompt_.special(kDsmlToken);
    prompt_.plain(name);
    prompt_.plain(attributes);
    prompt_.plain(">");
  }

  void close_tag(std::string_view name) {
    prompt_.plain("</");
    prompt_.special(kDsmlToken);
    prompt_.plain(name);
    prompt_.plain(">");
  }

  const ChatRequest& request_;
  const ChatFormat& format_;
  DsmlTags tags_;
  std::vector<const ChatMessage*> messages_; ///< Those that the prompt shows.
  Prompt prompt_;
};

} // namespace

Result<std::vector<PromptSegment>> render_chat(const ChatRequest& request,
                                               const ChatFormat& format) {
  if (format.dialect != Dialect::v4_1) {
    return {ErrorCode::unsupported,
            "encoding.json: dialect: found \"v4\", chat prompts are rendered for \"v4.1\" only"};
  }
  return Renderer(request, format).render();
}

Status check_markers(const Tokenizer& tokenizer, const ChatFormat& format,
                     const std::string& tokenizer_path, const std::string& format_path) {
  if (format.dialect != Dialect::v4_1) return {}; // Nothing is rendered for it.
  for (const std::string_view marker :
       {kBeginOfSentence, kEndOfSentence, kSystemToken, kUserToken, kAssistantToken, kReminderToken,
        kThinkBegin, kThinkEnd, kDsmlToken}) {
    const auto id = tokenizer.id_of(marker);
    if (id && tokenizer.is_added(*id)) continue;
    return {ErrorCode::bad_checkpoint,
            tokenizer_path + ": added_tokens: " + quote(marker) +
                " is missing, expected for the chat format of " + format_path +
                "; the files are of two models, fetch both again, or take encoding.json away to "
                "serve completions only"};
  }
  return {};
}

std::string prompt_text(const std::vector<PromptSegment>& segments) {
  std::string text;
  for (const PromptSegment& segment : segments)
    text += segment.text;
  return text;
}

} // namespace troupe::text
