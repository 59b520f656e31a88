// The two forms of an inspection: a page of text, and JSON.

#include "engine/inspect.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <iterator>

namespace troupe::engine {

namespace {

using nlohmann::ordered_json;

/// Names shown of a long list.
constexpr std::size_t kShown = 10;

std::string size_text(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string list_text(const std::vector<std::int64_t>& values) {
  return values.empty() ? "none" : fmt::format("{}", fmt::join(values, " "));
}

/// The ratios as runs, such as "0x2 2x18 1x20".
std::string runs_text(const std::vector<std::int64_t>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size();) {
    std::size_t end = i;
    while (end < values.size() && values[end] == values[i])
      ++end;
    text += fmt::format("{}{}x{}", text.empty() ? "" : " ", values[i], end - i);
    i = end;
  }
  return text;
}

std::string config_text(const ModelConfig& c) {
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "  layers {}, hidden {}, vocabulary {}, context {} tokens\n", c.layers,
                 c.hidden, c.vocab, c.context_max);
  fmt::format_to(out,
                 "  attention: {} heads of {}, rope {}, q rank {}, output {} groups of {}, "
                 "window {}\n",
                 c.heads, c.head_dim, c.rope_dim, c.q_lora, c.o_groups, c.o_lora, c.window);
  fmt::format_to(out,
                 "  compression: ratios {} (ratio x layers), kv sources {}, index sources {}, "
                 "top {}\n",
                 runs_text(c.ratios), list_text(c.kv_sources), list_text(c.index_sources),
                 c.index_topk);
  fmt::format_to(out, "  candidates: from layer {}, {} blocks of {}\n", c.candidate_source,
                 c.candidate_blocks, c.candidate_block_size);
  fmt::format_to(out, "  experts: {} of {} active, and a shared one, intermediate {}\n",
                 c.experts_per_token, c.experts, c.moe_intermediate);
  fmt::format_to(out, "  streams: {}; Engram layers: {}; draft stages: {}; vision: {}\n",
                 c.hc_streams, list_text(c.engram.layers), c.draft.stages,
                 c.vision ? fmt::format("{} layers", c.vision->layers) : "none");
  fmt::format_to(out, "  sampling: temperature {}, top_p {}, top_k {}; end tokens {}\n",
                 c.generation.temperature, c.generation.top_p, c.generation.top_k,
                 fmt::join(c.eos_tokens, " "));
  return text;
}

std::string groups_text(const char* title, const std::vector<TensorGroup>& groups) {
  std::string text = fmt::format("{}\n", title);
  for (const TensorGroup& group : groups) {
    text +=
        fmt::format("  {:<15} {:>8} tensors {:>16} bytes  {:>10}{}\n", group.name, group.tensors,
                    group.bytes, size_text(group.bytes), group.used ? "" : "  present, unused");
  }
  return text;
}

std::string names_text(const char* title, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  std::string text = fmt::format("{}: {}\n", title, names.size());
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i) {
    text += fmt::format("  {}\n", names[i]);
  }
  if (names.size() > kShown) text += fmt::format("  and {} more\n", names.size() - kShown);
  return text;
}

std::string memory_text(const KvMemory& m) {
  if (!m.problem.empty()) return fmt::format("  {:<6} does not work: {}\n", m.kv_format, m.problem);
  return fmt::format("  {:<6} {} slots of {} = {}; {} blocks of {} = {}; {} tokens of context, {} "
                     "bytes each\n",
                     m.kv_format, m.slots, size_text(m.slot_bytes),
                     size_text(m.slots * m.slot_bytes), m.blocks, size_text(m.block_bytes),
                     size_text(m.blocks * m.block_bytes), m.context_tokens, m.token_bytes);
}

ordered_json groups_json(const std::vector<TensorGroup>& groups) {
  ordered_json json = ordered_json::object();
  for (const TensorGroup& group : groups) {
    json[group.name] = {{"tensors", group.tensors}, {"bytes", group.bytes}, {"used", group.used}};
  }
  return json;
}

ordered_json config_json(const ModelConfig& c) {
  ordered_json json;
  json["layers"] = c.layers;
  json["hidden"] = c.hidden;
  json["vocab"] = c.vocab;
  json["context_max"] = c.context_max;
  json["heads"] = c.heads;
  json["head_dim"] = c.head_dim;
  json["rope_dim"] = c.rope_dim;
  json["q_lora"] = c.q_lora;
  json["o_groups"] = c.o_groups;
  json["o_lora"] = c.o_lora;
  json["window"] = c.window;
  json["ratios"] = c.ratios;
  json["kv_sources"] = c.kv_sources;
  json["index_sources"] = c.index_sources;
  json["index_topk"] = c.index_topk;
  json["candidate_source"] = c.candidate_source;
  json["candidate_blocks"] = c.candidate_blocks;
  json["candidate_block_size"] = c.candidate_block_size;
  json["experts"] = c.experts;
  json["experts_per_token"] = c.experts_per_token;
  json["moe_intermediate"] = c.moe_intermediate;
  json["streams"] = c.hc_streams;
  json["engram_layers"] = c.engram.layers;
  json["draft_stages"] = c.draft.stages;
  json["vision_layers"] = c.vision ? c.vision->layers : 0;
  json["temperature"] = c.generation.temperature;
  json["top_p"] = c.generation.top_p;
  json["top_k"] = c.generation.top_k;
  json["eos_tokens"] = c.eos_tokens;
  return json;
}

} // namespace

std::string inspect_text(const InspectFacts& facts) {
  std::string text = fmt::format("{}\n  identity {}\n", facts.folder, facts.identity);
  text += config_text(facts.config);
  text += fmt::format("{} tensors in {} files, {} ({} bytes), of which {} used\n", facts.tensors,
                      facts.shards, size_text(facts.tensor_bytes), facts.tensor_bytes,
                      size_text(facts.used_bytes));
  text += groups_text("by dtype", facts.dtypes);
  text += groups_text("by kind", facts.kinds);
  text += "kv memory of a rank\n";
  for (const KvMemory& memory : facts.memory)
    text += memory_text(memory);
  if (!facts.size_note.empty()) text += "note: " + facts.size_note + "\n";
  if (!facts.config.engram.incomplete.empty()) {
    text += "cannot run: " + facts.config.engram.incomplete + "\n";
  }
  text += names_text("missing and needed", facts.inventory.missing);
  text += names_text("of another dtype or shape", facts.inventory.wrong);
  text += names_text("missing but unused", facts.inventory.missing_unused);
  text += names_text("unknown and unused", facts.inventory.unknown);
  text += facts.complete() ? "every tensor that is needed is there\n"
                           : "this checkpoint cannot be run\n";
  return text;
}

std::string inspect_json(const InspectFacts& facts) {
  ordered_json json;
  json["path"] = facts.folder;
  json["identity"] = facts.identity;
  json["complete"] = facts.complete();
  json["config"] = config_json(facts.config);
  json["shards"] = facts.shards;
  json["tensors"] = facts.tensors;
  json["file_bytes"] = facts.file_bytes;
  json["tensor_bytes"] = facts.tensor_bytes;
  json["used_bytes"] = facts.used_bytes;
  json["dtypes"] = groups_json(facts.dtypes);
  json["kinds"] = groups_json(facts.kinds);
  json["memory"] = ordered_json::array();
  for (const KvMemory& m : facts.memory) {
    json["memory"].push_back({{"kv_format", m.kv_format},
                              {"slot_bytes", m.slot_bytes},
                              {"block_bytes", m.block_bytes},
                              {"slots", m.slots},
                              {"blocks", m.blocks},
                              {"context_tokens", m.context_tokens},
                              {"token_bytes", m.token_bytes},
                              {"problem", m.problem}});
  }
  json["missing"] = facts.inventory.missing;
  json["missing_unused"] = facts.inventory.missing_unused;
  json["wrong"] = facts.inventory.wrong;
  json["unknown"] = facts.inventory.unknown;
  json["size_note"] = facts.size_note;
  json["engram_incomplete"] = facts.config.engram.incomplete;
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

} // namespace troupe::engine
