#include "actors/app/text_desk.hpp"

#include "actors/app/batch_line.hpp"
#include "actors/app/response_body.hpp"
#include "actors/job_window.hpp"
#include "engine/text/chat_renderer.hpp"
#include "engine/text/detokenizer.hpp"
#include "engine/text/dialect.hpp"
#include "engine/text/output_parser.hpp"
#include "engine/text/request_body.hpp"
#include "schedulers/core/hash.hpp"
#include "schedulers/core/rng.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <set>

namespace troupe::app {

using actors::choice_of;
using actors::JobLine;
using actors::line_of;

/// One answer that grows.
struct TextDesk::Choice {
  text::Detokenizer detokenizer;
  text::OutputParser parser;
  text::ParsedOutput parsed;
  std::int64_t prompt_tokens = 0;
  std::int64_t tokens = 0; ///< Up to the end, or to the one that completed a stop string.
  std::int64_t reasoning_tokens = 0;
  bool reasoning = false; ///< The think end mark has not come yet.
  bool ended = false;
  bool stop_told = false;
  std::vector<TokenChances> logprobs;
};

struct TextDesk::Line {
  JobLine job;
  text::RequestBody body;
  std::vector<Choice> choices;
  ErrorCode code = ErrorCode::ok; ///< First failure of a choice.
  std::string detail;
};

namespace {

const char* kind_name(text::OutputKind kind) {
  switch (kind) {
  case text::OutputKind::reasoning:
    return "reasoning";
  case text::OutputKind::content:
    return "content";
  case text::OutputKind::call:
    return "call";
  case text::OutputKind::arguments:
    return "arguments";
  case text::OutputKind::finish:
    break;
  }
  return "finish";
}

std::int32_t status_of(ErrorCode code) {
  switch (code) {
  case ErrorCode::invalid_request:
  case ErrorCode::never_fits:
    return 400;
  case ErrorCode::rejected:
    return 429;
  case ErrorCode::deadline:
    return 504;
  case ErrorCode::no_rank:
    return 503;
  default:
    return 500;
  }
}

/// The conversation of a request: the one it names, else its user's, else one of its own.
std::uint64_t session_of(const text::RequestBody& body, const std::string& custom_id) {
  const std::string& name = !body.session_id.empty() ? body.session_id
                            : !body.user.empty()     ? body.user
                                                     : custom_id;
  return std::max<std::uint64_t>(1, hash64(name)); // 0 means unknown.
}

/// The seed of a request that names none: from the job's seed, its custom_id and the choice.
std::uint64_t derived_seed(std::uint64_t job_seed, const std::string& custom_id,
                           std::int64_t choice) {
  const std::uint64_t name = XXH3_64bits(custom_id.data(), custom_id.size());
  return draw(job_seed ^ name, static_cast<std::uint64_t>(choice), Purpose::seed);
}

text::RequestError context_error(std::int64_t prompt_tokens, std::int64_t context_max,
                                 const char* param) {
  return {400,
          fmt::format("the prompt has {} tokens, the context length of this model is {} tokens: no "
                      "room is left for an answer (limit {} prompt tokens); shorten the prompt",
                      prompt_tokens, context_max, context_max - 1),
          param, "context_length_exceeded"};
}

/// The refusal of a request whose first tokens could be none of the vocabulary.
std::optional<text::RequestError> nothing_to_draw(const text::RequestBody& body,
                                                  const TextOptions& options) {
  if (body.min_tokens <= 0) return std::nullopt;
  std::set<std::int32_t> suppressed(body.stop_token_ids.begin(), body.stop_token_ids.end());
  if (!body.ignore_eos) suppressed.insert(options.eos_ids.begin(), options.eos_ids.end());
  if (static_cast<std::int64_t>(suppressed.size()) < options.vocab) return std::nullopt;
  return text::RequestError{400,
                            "min_tokens asks for tokens, but stop_token_ids name the whole "
                            "vocabulary: none could be drawn; leave one of them out",
                            "stop_token_ids", "invalid_value"};
}

} // namespace

TextDesk::TextDesk(TextOptions options, PieceSink pieces)
    : options_(std::move(options)), pieces_(std::move(pieces)),
      think_end_(options_.tokenizer->id_of(text::kThinkEnd)) {}

TextDesk::~TextDesk() = default;

actors::Answer TextDesk::refuse(const JobLine& line, std::int32_t status, const std::string& body) {
  return {line.line, true, response_line(options_.job_id, line.custom_id, status, body), 0, 0};
}

TextDesk::Outcome TextDesk::render(const JobLine& job) {
  const auto refused = [&](const text::RequestError& error) {
    return Outcome{{}, refuse(job, error.status, error_body(error))};
  };
  text::BodyRules rules;
  rules.format = options_.format ? &*options_.format : nullptr;
  rules.vocab = options_.vocab;
  rules.choices_max = options_.choices_max;
  rules.thinking_default = options_.thinking;
  rules.reject_missing_reasoning = options_.reject_missing_reasoning;
  const auto endpoint =
      job.is_chat ? text::Endpoint::chat_completions : text::Endpoint::completions;
  auto parsed = text::parse_request_body(endpoint, job.body, rules);
  if (!parsed.ok()) return refused(*parsed.error);
  if (const auto error = nothing_to_draw(parsed.body, options_)) return refused(*error);

  auto line = std::make_unique<Line>();
  line->job = job;
  line->job.body.clear();
  line->body = std::move(parsed.body);
  return start_choices(std::move(line));
}

TextDesk::Outcome TextDesk::start_choices(std::unique_ptr<Line> line) {
  const bool is_chat = line->job.is_chat;
  const char* param = is_chat ? "messages" : "prompt";
  const auto refused = [&](const text::RequestError& error) {
    return Outcome{{}, refuse(line->job, error.status, error_body(error))};
  };
  std::vector<std::vector<std::int32_t>> prompts;
  const auto encoded = [&](Result<std::vector<std::int32_t>> ids) -> Status {
    if (ids.ok()) prompts.push_back(std::move(*ids));
    return ids.status();
  };
  Status status;
  if (is_chat) {
    auto segments = text::render_chat(line->body.chat, *options_.format);
    status = segments.ok() ? encoded(options_.tokenizer->encode(*segments)) : segments.status();
  } else {
    for (text::CompletionPrompt& prompt : line->body.prompts) {
      status = prompt.is_ids
                   ? encoded(std::move(prompt.ids))
                   : encoded(options_.tokenizer->encode(prompt.text, text::AddedTokens::match));
      if (!status.ok()) break;
    }
  }
  if (!status.ok()) return refused({400, status.error().message, param, "invalid_value"});

  text::ParserOptions parser;
  if (is_chat) {
    parser = text::parser_options(line->body.chat);
  } else {
    parser.initial_stage = text::InitialStage::raw;
  }
  parser.stop_strings = line->body.stop;
  Outcome outcome;
  for (auto& prompt : prompts) {
    const auto tokens = static_cast<std::int64_t>(prompt.size());
    if (tokens == 0)
      return refused({400, "an empty prompt has nothing to go on from", param, "invalid_value"});
    const auto outside = std::find_if(prompt.begin(), prompt.end(),
                                      [&](std::int32_t id) { return id >= options_.vocab; });
    if (outside != prompt.end()) {
      return refused(
          {400,
           fmt::format("token id {} of the prompt is not in the model's vocabulary of {}", *outside,
                       options_.vocab),
           param, "invalid_value"});
    }
    if (tokens >= options_.context_max) {
      return refused(context_error(tokens, options_.context_max, param));
    }
    const auto index = static_cast<std::int64_t>(line->choices.size());
    outcome.choices.push_back({line->body.user, line->body.priority.value_or(0),
                               work_of(*line, std::move(prompt), index),
                               session_of(line->body, line->job.custom_id), line->job.custom_id});
    Choice choice{text::Detokenizer(options_.tokenizer, text::SpecialTokens::keep),
                  text::OutputParser(parser),
                  {}};
    choice.prompt_tokens = tokens;
    choice.reasoning = is_chat && line->body.chat.thinking;
    line->choices.push_back(std::move(choice));
  }
  const std::int64_t number = line->job.line;
  lines_[number] = std::move(line);
  return outcome;
}

std::int64_t TextDesk::new_tokens_max(const Line& line, std::int64_t prompt_tokens) const {
  const text::RequestBody& body = line.body;
  std::int64_t wanted = options_.max_tokens_completion;
  if (body.max_tokens) {
    wanted = *body.max_tokens;
  } else if (line.job.is_chat) {
    wanted = !body.chat.thinking       ? options_.max_tokens_chat
             : body.chat.effort_is_max ? options_.max_tokens_effort_max
                                       : options_.max_tokens_thinking;
  }
  return std::min(wanted, options_.context_max - prompt_tokens);
}

sched::Work TextDesk::work_of(const Line& line, std::vector<std::int32_t> prompt,
                              std::int64_t choice) const {
  const text::RequestBody& body = line.body;
  sched::Work work;
  work.new_tokens_max = new_tokens_max(line, static_cast<std::int64_t>(prompt.size()));
  work.prompt = std::move(prompt);
  work.stop_ids = body.stop_token_ids;
  sched::Sampling& sampling = work.sampling;
  sampling.temperature_bits = std::bit_cast<std::uint32_t>(
      static_cast<float>(body.temperature.value_or(options_.temperature)));
  // A share too small for a float32 still means the likeliest token, not none.
  sampling.top_p_bits = std::bit_cast<std::uint32_t>(std::max(
      static_cast<float>(body.top_p.value_or(options_.top_p)), std::numeric_limits<float>::min()));
  sampling.top_k = static_cast<std::int32_t>(
      std::min<std::int64_t>(body.top_k.value_or(options_.top_k), options_.vocab));
  sampling.seed = body.seed ? *body.seed : derived_seed(options_.seed, line.job.custom_id, choice);
  sampling.top_logprobs = body.top_logprobs;
  sampling.new_tokens_min = std::min(body.min_tokens, work.new_tokens_max);
  sampling.ignore_eos = body.ignore_eos;
  return work;
}

TextDesk::Choice* TextDesk::find(RequestId request) {
  const auto found = lines_.find(line_of(request));
  if (found == lines_.end()) return nullptr;
  auto& choices = found->second->choices;
  const auto index = static_cast<std::size_t>(choice_of(request));
  return index < choices.size() ? &choices[index] : nullptr;
}

bool TextDesk::detokenise(RequestId request, std::span<const sched::TokenRow> rows) {
  Choice* choice = find(request);
  if (choice == nullptr || choice->ended) return false;
  const std::int64_t tokens_min = lines_.at(line_of(request))->body.min_tokens;
  const auto chance = [&](std::int32_t token, std::uint32_t bits) {
    return TokenChance{std::string(options_.tokenizer->token_bytes(token)), bits};
  };
  std::vector<text::OutputEvent> events;
  for (const sched::TokenRow& row : rows) {
    if (choice->parser.stopped()) break;
    ++choice->tokens;
    if (choice->reasoning) ++choice->reasoning_tokens;
    if (think_end_ && row.token == *think_end_) choice->reasoning = false;
    // The token that ended the answer is no text of it.
    if (row.end == sched::EndReason::eos || row.end == sched::EndReason::stop_id) continue;
    TokenChances chances{chance(row.token, row.logprob_bits), {}};
    for (std::size_t i = 0; i < row.top_tokens.size(); ++i) {
      chances.top.push_back(chance(row.top_tokens[i], row.top_logprob_bits[i]));
    }
    choice->logprobs.push_back(std::move(chances));
    choice->parser.set_stops(choice->tokens >= tokens_min);
    choice->parser.push(choice->detokenizer.push(row.token), events);
  }
  for (const text::OutputEvent& event : events) {
    choice->parsed.add(event);
    if (pieces_) pieces_(kind_name(event.kind), event.text);
  }
  const bool found_now = choice->parser.stopped() && !choice->stop_told;
  choice->stop_told = choice->parser.stopped();
  return found_now;
}

std::optional<actors::Answer> TextDesk::complete(const actors::Complete& end) {
  Choice* choice = find(end.request);
  if (choice == nullptr || choice->ended) return std::nullopt;
  Line& line = *lines_.at(line_of(end.request));
  choice->ended = true;
  std::vector<text::OutputEvent> events;
  choice->parser.push(choice->detokenizer.flush(), events);
  choice->parser.finish(end.end == sched::EndReason::length ? text::GenerationEnd::length
                                                            : text::GenerationEnd::stop,
                        events);
  for (const text::OutputEvent& event : events) {
    choice->parsed.add(event);
    if (pieces_) pieces_(kind_name(event.kind), event.text);
  }
  if (end.code != ErrorCode::ok && line.code == ErrorCode::ok) {
    line.code = end.code;
    line.detail = end.detail;
  }
  const bool all = std::all_of(line.choices.begin(), line.choices.end(),
                               [](const Choice& c) { return c.ended; });
  if (!all) return std::nullopt;
  actors::Answer out = answer(line);
  lines_.erase(line.job.line);
  return out;
}

void TextDesk::drop(std::int64_t line) { lines_.erase(line); }

actors::Answer TextDesk::answer(Line& line) {
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
  for (const Choice& choice : line.choices) {
    prompt_tokens += choice.prompt_tokens;
    output_tokens += choice.tokens;
  }
  if (line.code != ErrorCode::ok) {
    const std::int32_t status = status_of(line.code);
    const char* type = status < 500 ? "invalid_request_error" : "server_error";
    actors::Answer out =
        refuse(line.job, status, error_body(line.detail, type, "", error_name(line.code)));
    out.prompt_tokens = prompt_tokens;
    out.output_tokens = output_tokens;
    return out;
  }
  Answer body;
  body.endpoint = line.body.endpoint;
  body.id = response_id(options_.job_id, line.job.custom_id, line.body.endpoint);
  body.created_s = options_.created_s;
  body.model_json = line.body.model_json;
  body.usage = {prompt_tokens, output_tokens, std::nullopt};
  const bool thinks = line.job.is_chat && line.body.chat.thinking;
  if (thinks) body.usage.reasoning_tokens = line.choices.front().reasoning_tokens;
  for (Choice& choice : line.choices) {
    AnswerChoice out;
    out.content = std::move(choice.parsed.content);
    out.has_reasoning = thinks;
    out.reasoning = std::move(choice.parsed.reasoning);
    for (text::ParsedCall& call : choice.parsed.tool_calls) {
      out.tool_calls.push_back({std::move(call.name), std::move(call.arguments)});
    }
    out.finish = choice.parsed.finish;
    out.has_logprobs = line.body.top_logprobs >= 0;
    if (out.has_logprobs) out.logprobs = std::move(choice.logprobs);
    body.choices.push_back(std::move(out));
  }
  return {line.job.line, false,
          response_line(options_.job_id, line.job.custom_id, 200, response_body(body)),
          prompt_tokens, output_tokens};
}

} // namespace troupe::app
