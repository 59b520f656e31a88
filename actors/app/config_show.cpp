// SystemConfig → TOML that loads to the same, and the compiled-in defaults.

#include "actors/app/config_bind.hpp"
#include "actors/app/config_keys.hpp"
#include "actors/app/response_body.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace troupe::app {

namespace {

/// Writes the keys of one table after another; the visitor of config_keys.hpp.
class Writer {
public:
  Writer(const std::set<std::string>& given, std::string& out) : given_(given), out_(out) {}

  void table(const char* name) {
    out_ += fmt::format("\n[{}]\n", name);
    prefix_ = std::string(name) + ".";
  }
  void group(const std::string& header, std::string prefix) {
    out_ += "\n" + header + "\n";
    prefix_ = std::move(prefix);
  }

  void text(const char* key, const std::string& value) { line(key, json_string(value)); }
  void path(const char* key, const std::string& value) { line(key, json_string(value)); }
  void choice(const char* key, const std::string& value, std::initializer_list<const char*>) {
    line(key, json_string(value));
  }
  template <class Enum, class Names>
  void names(const char* key, Enum value, const Names& all) {
    for (const auto& [name, entry] : all) {
      if (entry == value) {
        line(key, json_string(name));
      }
    }
  }
  void boolean(const char* key, bool value) { line(key, value ? "true" : "false"); }
  void integer(const char* key, std::int64_t value, IntegerRange) {
    line(key, fmt::format("{}", value));
  }
  void size(const char* key, std::int64_t value, IntegerRange) {
    line(key, '"' + size_text(value) + '"');
  }
  void real(const char* key, double value, RealRange) { line(key, number(value)); }
  void real_or_model(const char* key, const std::optional<double>& value, RealRange) {
    line(key, value ? number(*value) : "\"model\"");
  }

private:
  /// Shortest text that TOML reads as the same real number.
  static std::string number(double value) {
    std::string text = fmt::format("{}", value);
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  }

  void line(const char* key, const std::string& value) {
    std::string text = fmt::format("{} = {}", key, value);
    if (!given_.contains(prefix_ + key)) {
      text = fmt::format("{:<33} # default", text);
    }
    out_ += text + "\n";
  }

  const std::set<std::string>& given_;
  std::string& out_;
  std::string prefix_;
};

using Json = nlohmann::ordered_json;

/// The same keys as JSON; the visitor of config_keys.hpp.
class JsonWriter {
public:
  explicit JsonWriter(Json& root) : root_(root), at_(&root) {}

  void table(const char* name) { at_ = &(root_[name] = Json::object()); }
  void enter(Json& table) { at_ = &table; }

  void text(const char* key, const std::string& value) { (*at_)[key] = value; }
  void path(const char* key, const std::string& value) { (*at_)[key] = value; }
  void choice(const char* key, const std::string& value, std::initializer_list<const char*>) {
    (*at_)[key] = value;
  }
  template <class Enum, class Names>
  void names(const char* key, Enum value, const Names& all) {
    for (const auto& [name, entry] : all) {
      if (entry == value) {
        (*at_)[key] = name;
      }
    }
  }
  void boolean(const char* key, bool value) { (*at_)[key] = value; }
  void integer(const char* key, std::int64_t value, IntegerRange) { (*at_)[key] = value; }
  void size(const char* key, std::int64_t value, IntegerRange) { (*at_)[key] = value; }
  void real(const char* key, double value, RealRange) { (*at_)[key] = value; }
  void real_or_model(const char* key, const std::optional<double>& value, RealRange) {
    (*at_)[key] = value ? Json(*value) : Json("model");
  }

private:
  Json& root_;
  Json* at_;
};

} // namespace

SystemConfig::SystemConfig() {
  RankGroupConfig group;
  group.name = "prefill";
  group.role = sched::Role::prefill;
  ranks.push_back(group);
  group.name = "decode";
  group.role = sched::Role::decode;
  ranks.push_back(group);
}

bool CostModelConfig::operator==(const CostModelConfig& other) const noexcept {
  return model.step_ps == other.model.step_ps && model.token_ps == other.model.token_ps &&
         model.pair_ps == other.model.pair_ps && model.sequence_ps == other.model.sequence_ps &&
         model.context_token_ps == other.model.context_token_ps && null_speed == other.null_speed;
}

std::string show_system_config(const SystemConfig& config, const std::set<std::string>& given) {
  std::string out = "# The resolved configuration; paths are absolute.\n";
  Writer writer(given, out);
  visit_tables(config, writer);
  for (const RankGroupConfig& group : config.ranks) {
    const std::string prefix = "rank." + group.name + ".";
    writer.group("[[rank]]", prefix);
    visit_rank(group, writer);
    if (group.cost_model == config.cost_model) {
      continue;
    }
    writer.group("[rank.cost_model]", prefix + "cost_model.");
    visit_cost_model(group.cost_model, writer);
  }
  return out;
}

std::string show_system_config_json(const SystemConfig& config,
                                    const std::set<std::string>& given) {
  Json tables = Json::object();
  JsonWriter writer(tables);
  visit_tables(config, writer);
  Json groups = Json::array();
  for (const RankGroupConfig& group : config.ranks) {
    Json entry = Json::object();
    writer.enter(entry);
    visit_rank(group, writer);
    Json cost = Json::object();
    writer.enter(cost);
    visit_cost_model(group.cost_model, writer);
    entry["cost_model"] = std::move(cost);
    groups.push_back(std::move(entry));
  }
  tables["rank"] = std::move(groups);
  const Json document = {{"config", std::move(tables)}, {"given", given}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace);
}

} // namespace troupe::app
