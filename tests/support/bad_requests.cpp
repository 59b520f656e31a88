#include "tests/support/bad_requests.hpp"

namespace troupe::test {

namespace {

using Parts = std::vector<std::string>;

constexpr int kDeep = 100'000;

std::string line_of(const std::string& name, const std::string& url, const std::string& body) {
  return R"({"custom_id":")" + name + R"(","method":"POST","url":")" + url + R"(","body":)" + body +
         "}";
}

/// A body of /v1/completions with a prompt and the given members.
BadRequest completion(const std::string& name, const std::string& members, const std::string& code,
                      const std::string& param, Parts parts) {
  const std::string body = R"({"prompt":"p",)" + members + "}";
  return {name, line_of(name, "/v1/completions", body), code, param, std::move(parts)};
}

/// A body of /v1/completions whose prompt is the given JSON.
BadRequest prompt(const std::string& name, const std::string& json, const std::string& code,
                  const std::string& param, Parts parts) {
  return {name, line_of(name, "/v1/completions", R"({"prompt":)" + json + "}"), code, param,
          std::move(parts)};
}

/// A body of /v1/chat/completions with one message and the given members.
BadRequest chat(const std::string& name, const std::string& members, const std::string& code,
                const std::string& param, Parts parts) {
  const std::string body = R"({"messages":[{"role":"user","content":"Hello."}],)" + members + "}";
  return {name, line_of(name, "/v1/chat/completions", body), code, param, std::move(parts)};
}

/// A body of /v1/chat/completions whose messages are the given JSON.
BadRequest messages(const std::string& name, const std::string& json, const std::string& code,
                    const std::string& param, Parts parts) {
  return {name, line_of(name, "/v1/chat/completions", R"({"messages":)" + json + "}"), code, param,
          std::move(parts)};
}

/// A line that is no request.
BadRequest line(const std::string& name, const std::string& text, const std::string& code,
                Parts parts, bool has_custom_id) {
  return {name, text, code, "", std::move(parts), false, has_custom_id};
}

std::string good(const std::string& name) {
  return line_of(name, "/v1/completions", R"({"prompt":"p"})");
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

std::string deep(const std::string& open, const std::string& close) {
  std::string text;
  for (int i = 0; i < kDeep; ++i)
    text += open;
  for (int i = 0; i < kDeep; ++i)
    text += close;
  return text;
}

std::vector<BadRequest> no_json() {
  const std::string json = "invalid_json";
  return {
      line("words", "hello", json, {"not JSON", "byte 1", "one JSON object"}, false),
      line("cut", good("cut").substr(0, 60), json, {"ends too early"}, true),
      line("two_objects", good("two_objects") + good("two_objects"), json,
           {"something else was expected"}, true),
      line("an_array", good("an_array").insert(0, 1, '[').append(1, ']'), json,
           {"an array", "expected an object"}, false),
      line("a_string", "\"a_string\"", json, {"a string", "expected an object"}, false),
      line("a_number", "12", json, {"a number", "expected an object"}, false),
      line("null_line", "null", json, {"null", "expected an object"}, false),
      line("trailing_comma", with(good("trailing_comma"), "}}", "},}"), json, {"not JSON"}, true),
      line("single_quotes", "{'custom_id':'x'}", json, {"not JSON"}, false),
      line("a_comment", good("a_comment") + " // why", json, {"not JSON"}, true),
      line("not_a_number", with(good("not_a_number"), "\"p\"", "NaN"), json, {"not JSON"}, true),
      line("infinity", with(good("infinity"), "\"p\"", "-Infinity"), json, {"not JSON"}, true),
      line("leading_zero", with(good("leading_zero"), "\"p\"", "[01]"), json, {"not JSON"}, true),
      line("hexadecimal", with(good("hexadecimal"), "\"p\"", "[0x1]"), json, {"not JSON"}, true),
      line("number_too_large", with(good("number_too_large"), "\"p\"", "1e999"), json,
           {"\"1e999\"", "too large"}, true),
      line("lone_surrogate", with(good("lone_surrogate"), "\"p\"", R"("\ud800")"), json,
           {"not JSON"}, true),
      line("swapped_surrogates", with(good("swapped_surrogates"), "\"p\"", R"("\udc00\ud800")"),
           json, {"not JSON"}, true),
      line("bad_escape", with(good("bad_escape"), "\"p\"", R"("\x41")"), json, {"not JSON"}, true),
      line("raw_tab", with(good("raw_tab"), "\"p\"", "\"a\tb\""), json, {"not JSON"}, true),
      line("zero_byte", with(good("zero_byte"), "\"p\"", std::string("\"a\0b\"", 5)), json,
           {"a zero byte at byte"}, false),
      line("bad_utf8", with(good("bad_utf8"), "\"p\"", "\"a\xFF\""), "invalid_utf8",
           {"UTF-8", "save the file as UTF-8"}, true),
      line("overlong_utf8", with(good("overlong_utf8"), "\"p\"", "\"\xC0\xAF\""), "invalid_utf8",
           {"UTF-8"}, true),
      line("utf8_surrogate", with(good("utf8_surrogate"), "\"p\"", "\"\xED\xA0\x80\""),
           "invalid_utf8", {"UTF-8"}, true),
      line("deep_and_open", with(good("deep_and_open"), "\"p\"", deep("[", "")), json, {"not JSON"},
           true),
  };
}

std::vector<BadRequest> bad_envelopes() {
  const auto name = [](const std::string& id) {
    return std::string(1, '"').append(id).append(1, '"');
  };
  std::vector<BadRequest> all = {
      line("empty_object", "{}", "missing_field", {"custom_id is missing", "expected a string"},
           false),
      line("id_missing", with(good("x"), R"("custom_id":"x",)", ""), "missing_field",
           {"custom_id is missing"}, false),
      line("id_number", with(good("x"), "\"x\"", "7"), "invalid_custom_id",
           {"is a number", "expected a string"}, false),
      line("id_null", with(good("x"), "\"x\"", "null"), "invalid_custom_id", {"is null"}, false),
      line("id_list", with(good("x"), "\"x\"", "[\"x\"]"), "invalid_custom_id", {"is an array"},
           false),
      line("id_empty", with(good("x"), "\"x\"", "\"\""), "invalid_custom_id", {"is empty"}, false),
      line("id_long", with(good("x"), "\"x\"", name(std::string(10'000, 'i'))), "invalid_custom_id",
           {"has 10000 bytes", "expected a string of 1 to"}, false),
      line("id_twice", with(good("x"), "{", R"({"custom_id":"y",)"), "duplicate_field",
           {"custom_id stands twice", "once is expected"}, false),
      line("body_twice", with(good("body_twice"), "}}", R"(},"body":{}})"), "duplicate_field",
           {"body stands twice"}, true),
      line("method_missing", with(good("method_missing"), R"("method":"POST",)", ""),
           "missing_field", {"method is missing", "\"POST\""}, true),
      line("method_get", with(good("method_get"), "POST", "GET"), "invalid_field",
           {"method is \"GET\"", "expected \"POST\""}, true),
      line("method_list", with(good("method_list"), "\"POST\"", "[]"), "invalid_field",
           {"method is an array"}, true),
      line("url_missing", with(good("url_missing"), R"("url":"/v1/completions",)", ""),
           "missing_field", {"url is missing", "/v1/chat/completions"}, true),
      line("url_embeddings", with(good("url_embeddings"), "completions", "embeddings"),
           "invalid_field", {"url is \"/v1/embeddings\"", "expected"}, true),
      line("url_with_host", with(good("url_with_host"), "/v1", "https://api.x.com/v1"),
           "invalid_field", {"url is \"https"}, true),
      line("body_missing",
           R"({"custom_id":"body_missing","method":"POST","url":"/v1/completions"})",
           "missing_field", {"body is missing"}, true),
      line("body_null", with(good("body_null"), R"({"prompt":"p"})", "null"), "invalid_field",
           {"body is null", "expected an object"}, true),
      line("body_text", with(good("body_text"), R"({"prompt":"p"})", "\"{}\""), "invalid_field",
           {"body is a string"}, true),
      line("field_misspelt", with(good("field_misspelt"), "\"url\"", "\"ulr\""), "unknown_field",
           {"\"ulr\" is unknown", "did you mean \"url\""}, true),
      line("field_of_another_tool", with(good("field_of_another_tool"), "}}", R"(},"tenant":"t"})"),
           "unknown_field", {"\"tenant\" is unknown"}, true),
  };
  return all;
}

std::vector<BadRequest> bad_prompts() {
  const std::string type = "invalid_type";
  const std::string value = "invalid_value";
  return {
      {"prompt_missing",
       line_of("prompt_missing", "/v1/completions", "{}"),
       "missing_required_parameter",
       "prompt",
       {"`prompt` is missing, expected a string"}},
      prompt("prompt_null", "null", "missing_required_parameter", "prompt", {"is missing"}),
      prompt("prompt_empty", "\"\"", value, "prompt",
             {"is empty, expected at least one character"}),
      prompt("prompt_number", "7", type, "prompt", {"is a number, expected a string"}),
      prompt("prompt_true", "true", type, "prompt", {"is a boolean, expected"}),
      prompt("prompt_object", "{}", type, "prompt", {"is an object, expected"}),
      prompt("prompt_no_ids", "[]", value, "prompt", {"is empty, expected at least one id"}),
      prompt("prompt_empty_among", R"(["a",""])", value, "prompt[1]", {"is empty"}),
      prompt("prompt_null_among", R"(["a",null])", type, "prompt[1]",
             {"is null, expected a string"}),
      prompt("prompt_mixed", R"(["a",[1]])", type, "prompt[1]", {"is an array, expected a string"}),
      prompt("prompt_ids_and_text", R"([1,"a"])", type, "prompt[1]", {"is a string, expected"}),
      prompt("prompt_empty_ids_among", "[[1],[]]", value, "prompt[1]", {"is empty"}),
      prompt("id_beyond_vocabulary", "[1,4096]", value, "prompt[1]",
             {"is 4096, expected an integer from 0 to 4095"}),
      prompt("id_negative", "[-1]", value, "prompt[0]", {"is -1, expected an integer from 0"}),
      prompt("id_fraction", "[1.5]", value, "prompt[0]", {"is 1.5, expected an integer"}),
      prompt("id_of_2_64", "[18446744073709551616]", value, "prompt[0]", {"expected an integer"}),
      prompt("id_far_beyond", "[[3,9223372036854775807]]", value, "prompt[0][1]",
             {"is 9223372036854775807"}),
      prompt("too_many_prompts",
             [] {
               std::string many = "[\"a\"";
               for (int i = 1; i < 200; ++i)
                 many += ",\"a\"";
               return many + "]";
             }(),
             value, "prompt", {"has 200 prompts, at most 128"}),
      prompt("body_deep", deep("[", "]"), "invalid_json", "", {"nested deeper than 128"}),
  };
}

std::vector<BadRequest> bad_numbers() {
  const std::string type = "invalid_type";
  const std::string value = "invalid_value";
  return {
      completion("max_tokens_zero", R"("max_tokens":0)", value, "max_tokens",
                 {"is 0, expected an integer from 1"}),
      completion("max_tokens_negative", R"("max_tokens":-5)", value, "max_tokens", {"is -5"}),
      completion("max_tokens_huge", R"("max_tokens":1000000000)", value, "max_tokens",
                 {"is 1000000000, expected an integer from 1 to 393216"}),
      completion("max_tokens_2_64", R"("max_tokens":18446744073709551616)", value, "max_tokens",
                 {"expected an integer"}),
      completion("max_tokens_text", R"("max_tokens":"5")", type, "max_tokens",
                 {"is a string, expected an integer"}),
      completion("max_tokens_fraction", R"("max_tokens":2.5)", value, "max_tokens", {"is 2.5"}),
      completion("max_tokens_conflict", R"("max_tokens":5,"max_completion_tokens":6)", value,
                 "max_completion_tokens", {"differs from the other"}),
      completion("min_above_max", R"("max_tokens":2,"min_tokens":3)", value, "min_tokens",
                 {"is 3, more than the 2 of max_tokens"}),
      completion("min_tokens_negative", R"("min_tokens":-1)", value, "min_tokens", {"is -1"}),
      completion("temperature_high", R"("temperature":2.1)", value, "temperature",
                 {"is 2.1, expected a number from 0 to 2"}),
      completion("temperature_low", R"("temperature":-0.1)", value, "temperature", {"is -0.1"}),
      completion("temperature_text", R"("temperature":"hot")", type, "temperature",
                 {"is a string, expected a number"}),
      completion("temperature_list", R"("temperature":[1])", type, "temperature", {"is an array"}),
      completion("temperature_huge", R"("temperature":1e308)", value, "temperature", {"is 1e+308"}),
      completion("top_p_zero", R"("top_p":0)", value, "top_p", {"is 0, expected a number above 0"}),
      completion("top_p_high", R"("top_p":1.5)", value, "top_p", {"is 1.5"}),
      completion("top_k_low", R"("top_k":-2)", value, "top_k",
                 {"is -2, expected an integer from -1"}),
      completion("seed_negative", R"("seed":-1)", value, "seed", {"is -1"}),
      completion("seed_2_63", R"("seed":9223372036854775808)", value, "seed",
                 {"is 9223372036854775808"}),
      completion("seed_text", R"("seed":"x")", type, "seed", {"is a string"}),
  };
}

std::vector<BadRequest> bad_fields() {
  const std::string type = "invalid_type";
  const std::string value = "invalid_value";
  const std::string unsupported = "unsupported_value";
  return {
      completion("stop_empty", R"("stop":"")", value, "stop", {"is empty"}),
      completion("stop_empty_among", R"("stop":["a",""])", value, "stop[1]", {"is empty"}),
      completion("stop_number", R"("stop":5)", type, "stop", {"is a number, expected a string"}),
      completion("stop_null_among", R"("stop":[null])", type, "stop[0]", {"is null"}),
      completion("stop_too_many",
                 R"("stop":["1","2","3","4","5","6","7","8","9","a","b","c","d",)"
                 R"("e","f","g","h"])",
                 value, "stop", {"has 17 strings, at most 16"}),
      completion("stop_id_beyond", R"("stop_token_ids":[151645])", value, "stop_token_ids[0]",
                 {"is 151645, expected an integer from 0 to 4095"}),
      completion("stop_id_text", R"("stop_token_ids":["a"])", type, "stop_token_ids[0]",
                 {"is a string"}),
      completion("ignore_eos_number", R"("ignore_eos":1)", type, "ignore_eos",
                 {"is a number, expected true or false"}),
      completion("logprobs_high", R"("logprobs":21)", value, "logprobs", {"is 21"}),
      completion("logprobs_true", R"("logprobs":true)", type, "logprobs", {"is a boolean"}),
      completion("n_many", R"("n":8)", unsupported, "n", {"is 8, only 1 is supported"}),
      completion("n_zero", R"("n":0)", unsupported, "n", {"is 0"}),
      completion("best_of", R"("best_of":3)", unsupported, "best_of", {"is 3"}),
      completion("logit_bias", R"("logit_bias":{"191222":5})", unsupported, "logit_bias",
                 {"is {\"191222\": 5}, expected {}"}),
      completion("logit_bias_list", R"("logit_bias":[])", type, "logit_bias", {"is an array"}),
      completion("penalty", R"("presence_penalty":0.5)", unsupported, "presence_penalty",
                 {"is 0.5, expected 0"}),
      completion("penalty_high", R"("frequency_penalty":3)", value, "frequency_penalty", {"is 3"}),
      completion("streaming", R"("stream":true)", unsupported, "stream", {"is true"}),
      completion("echo", R"("echo":true)", unsupported, "echo", {"is true"}),
      completion("suffix", R"("suffix":"x")", "unsupported_parameter", "suffix", {"not supported"}),
      completion("user_number", R"("user":5)", type, "user", {"is a number, expected a string"}),
      completion("metadata_text", R"("metadata":"x")", type, "metadata", {"is a string"}),
      completion("priority_text", R"("priority":"high")", type, "priority", {"is a string"}),
      completion("service_tier", R"("service_tier":"flex")", unsupported, "service_tier",
                 {"\"auto\""}),
      completion("field_unknown", R"("temprature":1)", "unknown_parameter", "temprature",
                 {"unknown field `temprature`", "nearest known field is `temperature`"}),
      completion("field_of_chat", R"("messages":[])", "unsupported_parameter", "messages",
                 {"belongs to /v1/chat/completions"}),
      completion("field_twice", R"("max_tokens":1,"max_tokens":2)", "duplicate_parameter",
                 "max_tokens", {"`max_tokens` stands twice", "expected once"}),
      completion("inner_field_twice", R"("metadata":{"a":1,"b":2,"a":3})", "duplicate_parameter",
                 "metadata.a", {"`metadata.a` stands twice"}),
  };
}

std::vector<BadRequest> bad_chats() {
  const std::string type = "invalid_type";
  const std::string value = "invalid_value";
  const std::string missing = "missing_required_parameter";
  return {
      {"messages_missing",
       line_of("messages_missing", "/v1/chat/completions", "{}"),
       missing,
       "messages",
       {"`messages` is missing"}},
      messages("messages_empty", "[]", value, "messages", {"is empty, expected at least one"}),
      messages("messages_text", "\"hi\"", type, "messages", {"is a string, expected an array"}),
      messages("message_text", "[\"hi\"]", type, "messages[0]",
               {"is a string, expected an object"}),
      messages("message_empty", "[{}]", missing, "messages[0].role", {"is missing"}),
      messages("role_unknown", R"([{"role":"robot","content":"x"}])", value, "messages[0].role",
               {"is \"robot\", expected system, user"}),
      messages("role_number", R"([{"role":1,"content":"x"}])", type, "messages[0].role",
               {"is a number, expected a string"}),
      messages("role_twice", R"([{"role":"user","content":"x","role":"system"}])",
               "duplicate_parameter", "messages[0].role", {"stands twice"}),
      messages("content_missing", R"([{"role":"user"}])", missing, "messages[0].content",
               {"is missing"}),
      messages("content_number", R"([{"role":"user","content":5}])", type, "messages[0].content",
               {"is a number, expected"}),
      messages("content_of_images",
               R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}])",
               "unsupported_value", "messages[0].content[0].type",
               {"is \"image_url\", expected \"text\""}),
      messages("content_part_text", R"([{"role":"user","content":["x"]}])", type,
               "messages[0].content[0]", {"is a string, expected an object"}),
      messages("message_field_unknown", R"([{"role":"user","content":"x","contnet":"y"}])",
               "unknown_parameter", "messages[0].contnet", {"nearest known field"}),
      messages("tool_answer_without_call", R"([{"role":"tool","content":"x","tool_call_id":"a"}])",
               value, "messages[0]", {"answers no call"}),
      chat("prompt_in_chat", R"("prompt":"x")", "unsupported_parameter", "prompt",
           {"belongs to /v1/completions"}),
      chat("tools_object", R"("tools":{})", type, "tools", {"is an object, expected an array"}),
      chat("tool_without_function", R"("tools":[{"type":"function"}])", missing,
           "tools[0].function", {"is missing"}),
      chat("tool_name_blank", R"("tools":[{"type":"function","function":{"name":"a b"}}])", value,
           "tools[0].function.name", {"is \"a b\", expected letters, digits"}),
      chat("tool_choice_word", R"("tool_choice":"maybe")", value, "tool_choice",
           {"is \"maybe\", expected \"auto\""}),
      chat("tool_choice_forced",
           R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required")",
           "unsupported_value", "tool_choice", {"not supported"}),
      chat("thinking_word", R"("thinking":"yes")", type, "thinking", {"is a string, expected"}),
      chat("thinking_type", R"("thinking":{"type":"maybe"})", value, "thinking.type",
           {"is \"maybe\", expected \"enabled\""}),
      chat("effort_unknown", R"("reasoning_effort":"enormous")", value, "reasoning_effort",
           {"is no effort of this model", "expected one of"}),
      chat("effort_number", R"("reasoning_effort":5)", "unsupported_value", "reasoning_effort",
           {"only the names"}),
      chat("format_schema",
           R"("response_format":{"type":"json_schema","json_schema":{"name":"x",)"
           R"("schema":{"type":"object"}}})",
           "unsupported_value", "response_format.type", {"text"}),
      chat("format_word", R"("response_format":"json")", type, "response_format", {"is a string"}),
      chat("top_logprobs_alone", R"("top_logprobs":3)", value, "top_logprobs",
           {"needs `logprobs`: true"}),
      chat("top_logprobs_high", R"("logprobs":true,"top_logprobs":21)", value, "top_logprobs",
           {"is 21"}),
      chat("logprobs_number", R"("logprobs":5)", type, "logprobs", {"expected true or false"}),
      chat("kwargs_unknown", R"("chat_template_kwargs":{"think":true})", "unknown_parameter",
           "chat_template_kwargs.think", {"nearest known field"}),
      chat("parallel_text", R"("parallel_tool_calls":"yes")", type, "parallel_tool_calls",
           {"is a string, expected true or false"}),
  };
}

} // namespace

std::vector<BadRequest> bad_requests() {
  std::vector<BadRequest> all;
  for (const auto& kinds :
       {no_json(), bad_envelopes(), bad_prompts(), bad_numbers(), bad_fields(), bad_chats()})
    all.insert(all.end(), kinds.begin(), kinds.end());
  return all;
}

} // namespace troupe::test
