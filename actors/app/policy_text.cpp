#include "actors/app/policy_text.hpp"

#include "actors/app/response_body.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace troupe::app {

namespace {

/// A TOML text; JSON leaves one control character as it is that TOML does not take.
std::string quoted(std::string_view text) {
  std::string out;
  for (const char c : json_string(text)) {
    if (c == '\x7F') {
      out += "\\u007f";
    } else {
      out += c;
    }
  }
  return out;
}

std::string value_text(const OptionValue& value) {
  if (const auto* flag = std::get_if<bool>(&value.value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<std::int64_t>(&value.value)) return std::to_string(*number);
  if (const auto* text = std::get_if<std::string>(&value.value)) return quoted(*text);
  std::string real = fmt::format("{}", std::get<double>(value.value));
  // Without a point it would be read as an integer.
  if (real.find_first_not_of("-0123456789") == std::string::npos) real += ".0";
  return real;
}

constexpr std::size_t kReal = 2; ///< Place of real numbers in OptionValue.

/// 1 as 1.0, where a real number is meant.
OptionValue as_real(const OptionValue& value) {
  const auto* number = std::get_if<std::int64_t>(&value.value);
  if (number == nullptr) return value;
  return {static_cast<double>(*number), value.where};
}

/// Options as a tree: "score[1].by" is entry 1 of score, and its member by.
struct OptionTree {
  std::string value; ///< Of a leaf.
  std::vector<OptionTree> items;
  std::map<std::string, OptionTree> members;

  /// Puts `text` at the place that `key` names; below a dot the rest is one key.
  void put(std::string_view key, const std::string& text) {
    const std::size_t mark = key.find_first_of(".[");
    OptionTree* at = &members[std::string(key.substr(0, mark))];
    std::string_view rest = mark == std::string_view::npos ? "" : key.substr(mark);
    while (rest.starts_with('[')) {
      std::size_t index = 0;
      std::from_chars(rest.data() + 1, rest.data() + rest.size(), index);
      if (at->items.size() <= index) at->items.resize(index + 1);
      at = &at->items[index];
      rest.remove_prefix(std::min(rest.find(']'), rest.size() - 1) + 1);
    }
    if (rest.starts_with('.')) at = &at->members[std::string(rest.substr(1))];
    at->value = text;
  }

  std::string text() const {
    std::string out;
    for (const OptionTree& item : items)
      out += (out.empty() ? "[" : ", ") + item.text();
    if (!items.empty()) return out + "]";
    for (const auto& [key, member] : members)
      out += (out.empty() ? "{ " : ", ") + quoted(key) + " = " + member.text();
    return members.empty() ? value : out + " }";
  }
};

bool is_bare(const std::string& key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

std::string kind_text(const std::string& section, const std::string& kind,
                      const sched::PolicySpec& spec) {
  std::string out = "\n[" + section + kind + "]\n";
  if (!spec.policy.empty()) out += "policy = " + quoted(spec.policy) + "\n";
  OptionTree tree;
  for (const auto& [key, value] : spec.options.values())
    tree.put(key, value_text(value));
  for (const auto& [key, member] : tree.members)
    out += (is_bare(key) ? key : quoted(key)) + " = " + member.text() + "\n";
  return out;
}

/// Keys of [probation] with their values.
std::vector<std::pair<const char*, std::string>> probation_rows(const sched::ProbationSpec& spec) {
  return {{"window_s", std::to_string(spec.window_us / 1'000'000)},
          {"requests_min", std::to_string(spec.requests_min)},
          {"ttft_p95_ratio", permille_text(spec.ttft_p95_permille)},
          {"tpot_p95_ratio", permille_text(spec.tpot_p95_permille)},
          {"goodput_ratio", permille_text(spec.goodput_permille)},
          {"preemptions_ratio", permille_text(spec.preemptions_permille)}};
}

std::string library_text(const sched::LibrarySpec& library) {
  return fmt::format(
      "\n[[library]]\npath = {}\nisolation = \"{}\"\ndecide_us = {}\ncreate_ms = {}\n",
      quoted(library.path), library.lane ? "lane" : "none", library.decide_us, library.create_ms);
}

} // namespace

std::string permille_text(std::int64_t permille) {
  std::string text = fmt::format("{}.{:03}", permille / 1000, permille % 1000);
  while (text.back() == '0' && text[text.size() - 2] != '.')
    text.pop_back();
  return text;
}

std::string policy_set_text(const sched::PolicySet& set) {
  std::string out = "name = " + quoted(set.name) + "\n";
  for (const sched::LibrarySpec& library : set.libraries)
    out += library_text(library);
  const auto defaults = probation_rows({});
  const auto given = probation_rows(set.probation);
  if (given != defaults) {
    out += "\n[probation]\n";
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (given[i] != defaults[i]) out += fmt::format("{} = {}\n", given[i].first, given[i].second);
    }
  }
  for (const auto& [kind, spec] : set.kinds)
    out += kind_text("", kind, spec);
  for (const auto& [kind, spec] : set.shadow)
    out += kind_text("shadow.", kind, spec);
  if (!set.canary.empty()) {
    out += "\n[canary]\nshare = " + permille_text(set.canary_permille) + "\n";
  }
  for (const auto& [kind, spec] : set.canary)
    out += kind_text("canary.", kind, spec);
  return out;
}

std::map<std::string, std::string> policy_rows(const sched::PolicySet& set,
                                               const sched::PolicyRegistry& registry) {
  std::map<std::string, std::string> rows;
  rows["name"] = quoted(set.name);
  for (const sched::LibrarySpec& library : set.libraries) {
    const std::string key = "library." + quoted(library.path) + ".";
    rows[key + "digest"] = quoted(library.digest);
    rows[key + "isolation"] = library.lane ? "\"lane\"" : "\"none\"";
    rows[key + "decide_us"] = std::to_string(library.decide_us);
    rows[key + "create_ms"] = std::to_string(library.create_ms);
  }
  for (const auto& [key, value] : probation_rows(set.probation))
    rows[std::string("probation.") + key] = value;
  const auto add = [&](const std::string& path, const std::string& kind,
                       const sched::PolicySpec& spec) {
    const std::string policy = spec.policy.empty() ? registry.default_name(kind) : spec.policy;
    rows[path + ".policy"] = quoted(policy);
    const auto defaults = registry.option_defaults(kind, policy, set.libraries);
    for (const auto& [key, value] : defaults)
      rows[path + "." + key] = value_text(value);
    for (const auto& [key, value] : spec.options.values()) {
      const auto known = defaults.find(key);
      const bool is_real = known != defaults.end() && known->second.value.index() == kReal;
      rows[path + "." + key] = value_text(is_real ? as_real(value) : value);
    }
  };
  for (const std::string& kind : registry.kinds()) {
    const auto chosen = set.kinds.find(kind);
    add(kind, kind, chosen == set.kinds.end() ? sched::PolicySpec{} : chosen->second);
  }
  for (const auto& [kind, spec] : set.shadow)
    add("shadow." + kind, kind, spec);
  if (!set.canary.empty()) rows["canary.share"] = permille_text(set.canary_permille);
  for (const auto& [kind, spec] : set.canary)
    add("canary." + kind, kind, spec);
  return rows;
}

std::vector<PolicyDifference> policy_differences(const sched::PolicySet& before,
                                                 const sched::PolicySet& after,
                                                 const sched::PolicyRegistry& registry) {
  const auto old_rows = policy_rows(before, registry);
  const auto new_rows = policy_rows(after, registry);
  std::vector<PolicyDifference> out;
  for (const auto& [key, value] : old_rows) {
    const auto at = new_rows.find(key);
    if (at == new_rows.end()) {
      out.push_back({key, value, ""});
    } else if (at->second != value) {
      out.push_back({key, value, at->second});
    }
  }
  for (const auto& [key, value] : new_rows) {
    if (!old_rows.contains(key)) out.push_back({key, "", value});
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  return out;
}

} // namespace troupe::app
