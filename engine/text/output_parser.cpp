#include "engine/text/output_parser.hpp"

#include "engine/text/dialect.hpp"
#include "engine/text/json_value.hpp"
#include "engine/text/string_matcher.hpp"
#include "engine/text/utf8.hpp"

#include <algorithm>

namespace troupe::text {
namespace {

// Tags are known by what both dialects share; V4.1's leading space lies outside.
constexpr std::string_view kOpen = "<｜DSML｜";
constexpr std::string_view kClose = "</｜DSML｜";
constexpr std::string_view kInvoke = "invoke name=\"";
constexpr std::string_view kParameter = "parameter name=";
constexpr std::string_view kStringValue = "string=\"true\">";
constexpr std::string_view kJsonValue = "string=\"false\">";

std::string block_end(Dialect dialect) {
  return std::string(kClose).append(dsml_tags(dialect).block).append(1, '>');
}

static_assert(dsml_tags(Dialect::v4).invoke == kInvoke.substr(0, 6));
static_assert(dsml_tags(Dialect::v4_1).parameter.substr(1) == kParameter.substr(0, 9));

/// The name of a parameter on its way into JSON, from the character after `name=`.
///
/// It is copied as it comes, so that it leaves at once. What JSON does not allow in a string is
/// escaped: control characters, and a backslash that begins no JSON escape. After the closing quote
/// everything up to a space is copied too.
class NameCopy {
public:
  /// Appends what `byte` releases; true when the name is over.
  bool step(char byte, std::string& out) {
    switch (state_) {
    case State::begin:
      out += byte;
      state_ = byte == '"' ? State::inside : State::closed;
      return false;
    case State::inside:
      inside(byte, out);
      return false;
    case State::escape:
      escape(byte, out);
      return false;
    case State::hex:
      hex(byte, out);
      return false;
    case State::closed:
      break;
    }
    if (byte != ' ') {
      out += byte;
      return false;
    }
    out += ": ";
    return true;
  }

  /// Appends what is held.
  void flush(std::string& out) { out += held_; }

private:
  enum class State : std::uint8_t { begin, inside, escape, hex, closed };

  void inside(char byte, std::string& out) {
    if (byte == '"') {
      out += byte;
      state_ = State::closed;
    } else if (byte == '\\') {
      out += byte;
      state_ = State::escape;
    } else if (static_cast<unsigned char>(byte) < 0x20) {
      append_json_escaped(std::string_view(&byte, 1), out);
    } else {
      out += byte;
    }
  }

  /// After a backslash that is out already.
  void escape(char byte, std::string& out) {
    state_ = State::inside;
    if (std::string_view("\"\\/bfnrt").find(byte) != std::string_view::npos) {
      out += byte;
    } else if (byte == 'u') {
      held_ = byte;
      state_ = State::hex;
    } else {
      out += '\\'; // The backslash meant itself.
      inside(byte, out);
    }
  }

  void hex(char byte, std::string& out) {
    constexpr std::size_t kEscapeBytes = 5;
    const bool digit = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f') ||
                       (byte >= 'A' && byte <= 'F');
    if (digit) {
      held_ += byte;
      if (held_.size() < kEscapeBytes) return;
      out += held_;
    } else {
      out.append(1, '\\').append(held_);
    }
    held_.clear();
    state_ = State::inside;
    if (!digit) inside(byte, out);
  }

  State state_ = State::begin;
  std::string held_;
};

} // namespace

std::string_view finish_reason_name(FinishReason reason) noexcept {
  switch (reason) {
  case FinishReason::stop:
    return "stop";
  case FinishReason::length:
    return "length";
  case FinishReason::content_filter:
    return "content_filter";
  case FinishReason::tool_calls:
    return "tool_calls";
  }
  return "stop";
}

/// The state machine behind OutputParser.
class OutputParser::Machine {
public:
  explicit Machine(const ParserOptions& options);

  void push(std::string_view bytes, std::vector<OutputEvent>& out);
  void finish(GenerationEnd end, std::vector<OutputEvent>& out);
  bool stopped() const noexcept { return state_ == State::stopped; }
  void set_stops(bool active) noexcept { stops_active_ = active; }

private:
  enum class State : std::uint8_t {
    reasoning,
    answer,
    raw,   ///< Answer without markup.
    block, ///< Between calls.
    call_name,
    call,       ///< Between parameters.
    name,       ///< Of a parameter.
    attributes, ///< Between a name and its value.
    string_value,
    json_value,
    after_block, ///< Everything is dropped.
    stopped,
  };

  void take(std::string_view text);
  void step(char byte);
  void step_text(char byte);
  void step_block(char byte);
  void step_call(char byte);
  void step_name(char byte);
  void step_attributes(char byte);
  void step_value(char byte);

  bool match_stop(char byte);
  void release(std::size_t keep_bytes);
  void end_text();
  void enter(State state);
  void open_call();
  void emit(OutputKind kind, std::string_view text);

  State state_ = State::answer;
  bool parse_tool_calls_;
  bool at_start_ = false; ///< Leading newlines are dropped.
  std::vector<StringMatcher> stops_;
  bool stops_active_ = true;
  StringMatcher think_end_{kThinkEnd};
  StringMatcher open_{kOpen};
  StringMatcher close_{kClose};
  StringMatcher block_end_v4_{block_end(Dialect::v4)};
  StringMatcher block_end_v4_1_{block_end(Dialect::v4_1)};
  StringMatcher invoke_{kInvoke};
  StringMatcher parameter_{kParameter};
  StringMatcher string_value_{kStringValue};
  StringMatcher json_value_{kJsonValue};
  std::string held_;         ///< Text that may still become a marker, or a name.
  std::size_t newlines_ = 0; ///< Newlines right before what open_ or think_end_ hold.
  std::size_t run_ = 0;      ///< Newlines the text ends with.
  NameCopy name_;
  std::int64_t calls_ = 0;
  std::int64_t parameters_ = 0; ///< Of the open call.
  Utf8Stream utf8_;
  std::vector<OutputEvent>* out_ = nullptr; ///< During push() and finish().
  std::size_t out_begin_ = 0;               ///< Events before it are the caller's.
};

OutputParser::Machine::Machine(const ParserOptions& options)
    : parse_tool_calls_(options.parse_tool_calls) {
  for (const std::string& stop : options.stop_strings)
    stops_.emplace_back(stop);
  switch (options.initial_stage) {
  case InitialStage::answer:
    at_start_ = true;
    break;
  case InitialStage::reasoning:
    at_start_ = true;
    state_ = State::reasoning;
    break;
  case InitialStage::reasoning_continuation:
    state_ = State::reasoning;
    break;
  case InitialStage::answer_continuation:
    break;
  case InitialStage::tool_calls:
    state_ = State::block;
    break;
  case InitialStage::raw:
    state_ = State::raw;
    break;
  }
}

void OutputParser::Machine::push(std::string_view bytes, std::vector<OutputEvent>& out) {
  out_ = &out;
  out_begin_ = out.size();
  std::string text;
  utf8_.push(bytes, text);
  take(text);
}

void OutputParser::Machine::take(std::string_view text) {
  for (const char byte : text)
    step(byte);
}

void OutputParser::Machine::finish(GenerationEnd end, std::vector<OutputEvent>& out) {
  out_ = &out;
  out_begin_ = out.size();
  std::string text;
  utf8_.flush(text);
  take(text);
  end_text();
  FinishReason reason = FinishReason::stop;
  if (state_ != State::stopped) {
    if (end == GenerationEnd::length) reason = FinishReason::length;
    if (end == GenerationEnd::content_filter) reason = FinishReason::content_filter;
    if (end == GenerationEnd::stop && calls_ > 0) reason = FinishReason::tool_calls;
  }
  out.push_back({OutputKind::finish, 0, {}, reason});
}

void OutputParser::Machine::step(char byte) {
  switch (state_) {
  case State::reasoning:
  case State::answer:
  case State::raw:
    step_text(byte);
    break;
  case State::block:
    step_block(byte);
    break;
  case State::call_name:
    if (byte == '"') {
      open_call();
    } else {
      held_ += byte;
    }
    break;
  case State::call:
    step_call(byte);
    break;
  case State::name:
    step_name(byte);
    break;
  case State::attributes:
    step_attributes(byte);
    break;
  case State::string_value:
  case State::json_value:
    step_value(byte);
    break;
  case State::after_block:
  case State::stopped:
    break;
  }
}

/// Reasoning and answers: what cannot become a marker or a stop string leaves at once.
void OutputParser::Machine::step_text(char byte) {
  const bool reasoning = state_ == State::reasoning;
  if (at_start_ && byte == '\n') return;
  at_start_ = false;
  held_ += byte;
  if (!reasoning && match_stop(byte)) return;
  if (state_ == State::raw) {
    std::size_t keep = 0;
    for (const StringMatcher& stop : stops_)
      keep = std::max(keep, stop.held());
    return release(keep);
  }
  const bool ends_thinking = think_end_.step(byte);
  const bool opens = parse_tool_calls_ && open_.step(byte);
  if (ends_thinking || opens) {
    const std::size_t marker = ends_thinking ? kThinkEnd.size() : kOpen.size();
    const bool swallow = opens || reasoning;
    release(marker + (swallow ? newlines_ : 0));
    if (opens) return enter(State::block);
    at_start_ = reasoning;
    return enter(State::answer);
  }
  // Newlines before a marker go with it; both markers begin with '<'.
  const std::size_t marker = std::max(think_end_.held(), open_.held());
  if (byte == '\n') {
    ++run_;
    newlines_ = run_;
  } else if (marker == 0) {
    run_ = newlines_ = 0;
  } else if (marker == 1) {
    newlines_ = run_;
    run_ = 0;
  }
  std::size_t keep = think_end_.held();
  if (reasoning) keep = marker + newlines_;
  if (parse_tool_calls_ && marker == open_.held()) keep = marker + newlines_;
  if (!reasoning) {
    for (const StringMatcher& stop : stops_)
      keep = std::max(keep, stop.held());
  }
  release(keep);
}

/// Looks for stop strings; at the first one the text before it is out and nothing follows. Of
/// several that end together the first of the request counts.
bool OutputParser::Machine::match_stop(char byte) {
  std::size_t found = 0;
  for (StringMatcher& stop : stops_) {
    if (stop.step(byte) && stops_active_ && found == 0) found = stop.size();
  }
  if (found == 0) return false;
  release(found);
  held_.clear();
  state_ = State::stopped;
  return true;
}

/// Emits all held text but its last `keep_bytes`.
void OutputParser::Machine::release(std::size_t keep_bytes) {
  if (held_.size() <= keep_bytes) return;
  const std::size_t count = held_.size() - keep_bytes;
  emit(state_ == State::reasoning ? OutputKind::reasoning : OutputKind::content,
       std::string_view(held_).substr(0, count));
  held_.erase(0, count);
}

/// At the end of the output: what was held is text after all.
void OutputParser::Machine::end_text() {
  std::string rest;
  switch (state_) {
  case State::reasoning:
  case State::answer:
  case State::raw:
    release(0);
    break;
  case State::name:
    name_.flush(rest);
    break;
  case State::string_value:
    append_json_escaped(held_, rest);
    break;
  case State::json_value:
    rest = held_;
    break;
  default:
    break;
  }
  if (!rest.empty()) emit(OutputKind::arguments, rest);
}

void OutputParser::Machine::enter(State state) {
  state_ = state;
  held_.clear();
  newlines_ = run_ = 0;
  for (StringMatcher* matcher : {&think_end_, &open_, &close_, &block_end_v4_, &block_end_v4_1_,
                                 &invoke_, &parameter_, &string_value_, &json_value_}) {
    matcher->reset();
  }
  for (StringMatcher& stop : stops_)
    stop.reset();
}

void OutputParser::Machine::step_block(char byte) {
  if (invoke_.step(byte)) return enter(State::call_name);
  const bool ends_v4 = block_end_v4_.step(byte);
  const bool ends_v4_1 = block_end_v4_1_.step(byte);
  if (ends_v4 || ends_v4_1) enter(State::after_block);
}

void OutputParser::Machine::open_call() {
  ++calls_;
  parameters_ = 0;
  emit(OutputKind::call, held_);
  enter(State::call);
}

void OutputParser::Machine::step_call(char byte) {
  if (parameter_.step(byte)) {
    emit(OutputKind::arguments, parameters_++ == 0 ? "{" : ", ");
    name_ = NameCopy();
    enter(State::name);
  } else if (close_.step(byte)) {
    emit(OutputKind::arguments, parameters_ == 0 ? "{}" : "}");
    enter(State::block);
  }
}

void OutputParser::Machine::step_name(char byte) {
  std::string text;
  const bool over = name_.step(byte, text);
  if (!text.empty()) emit(OutputKind::arguments, text);
  if (over) enter(State::attributes);
}

void OutputParser::Machine::step_attributes(char byte) {
  if (string_value_.step(byte)) {
    emit(OutputKind::arguments, "\"");
    enter(State::string_value);
  } else if (json_value_.step(byte)) {
    enter(State::json_value);
  }
}

void OutputParser::Machine::step_value(char byte) {
  const bool is_string = state_ == State::string_value;
  held_ += byte;
  const bool over = close_.step(byte);
  const std::size_t keep = over ? kClose.size() : close_.held();
  std::string text;
  if (held_.size() > keep) {
    const std::string_view free = std::string_view(held_).substr(0, held_.size() - keep);
    if (is_string) {
      append_json_escaped(free, text);
    } else {
      text = free;
    }
    held_.erase(0, held_.size() - keep);
  }
  if (over && is_string) text += '"';
  if (!text.empty()) emit(OutputKind::arguments, text);
  if (over) enter(State::call);
}

/// Adds to the last event of this call when it is of the same kind.
void OutputParser::Machine::emit(OutputKind kind, std::string_view text) {
  const std::int64_t index =
      kind == OutputKind::call || kind == OutputKind::arguments ? calls_ - 1 : 0;
  const bool joins = kind != OutputKind::call && out_->size() > out_begin_ &&
                     out_->back().kind == kind && out_->back().call_index == index;
  if (joins) {
    out_->back().text += text;
  } else {
    out_->push_back({kind, index, std::string(text), FinishReason::stop});
  }
}

OutputParser::OutputParser(const ParserOptions& options)
    : machine_(std::make_unique<Machine>(options)) {}
OutputParser::~OutputParser() = default;
OutputParser::OutputParser(OutputParser&&) noexcept = default;
OutputParser& OutputParser::operator=(OutputParser&&) noexcept = default;

void OutputParser::push(std::string_view bytes, std::vector<OutputEvent>& out) {
  machine_->push(bytes, out);
}

bool OutputParser::stopped() const noexcept { return machine_->stopped(); }
void OutputParser::set_stops(bool active) noexcept { machine_->set_stops(active); }

void OutputParser::finish(GenerationEnd end, std::vector<OutputEvent>& out) {
  machine_->finish(end, out);
}

void ParsedOutput::add(const OutputEvent& event) {
  switch (event.kind) {
  case OutputKind::reasoning:
    reasoning += event.text;
    break;
  case OutputKind::content:
    content += event.text;
    break;
  case OutputKind::call:
    tool_calls.push_back({event.text, {}});
    break;
  case OutputKind::arguments:
    tool_calls.back().arguments += event.text;
    break;
  case OutputKind::finish:
    finish = event.finish;
    break;
  }
}

} // namespace troupe::text
