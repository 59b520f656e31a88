#include "actors/app/policy_words.hpp"

#include "schedulers/core/printable.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>

namespace troupe::app {

namespace {

using Json = nlohmann::json;

constexpr std::int64_t kUsPerS = 1'000'000;

/// A text of the document as a terminal can show it on one line; "" for null or what is missing.
std::string word(const Json& from, const char* key) {
  const auto at = from.find(key);
  return at == from.end() || !at->is_string() ? "" : message_line(at->get<std::string>());
}

/// Some lines of text, each as word() would show it.
std::string lines_of(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (at > 0) out += '\n';
    out += message_line(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::int64_t number(const Json& from, const char* key) {
  const auto at = from.find(key);
  return at == from.end() || !at->is_number() ? 0 : at->get<std::int64_t>();
}

const Json& part(const Json& from, const char* key) {
  static const Json none = Json::object();
  const auto at = from.find(key);
  return at == from.end() ? none : *at;
}

/// 3 of 120 is "2.5 %".
std::string percent(std::int64_t some, std::int64_t all) {
  if (all <= 0) return "0.0 %";
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(some) / static_cast<double>(all));
}

std::string live_words(const Json& document) {
  return fmt::format("policy set \"{}\", epoch {}{}{}", word(document, "name"),
                     number(document, "epoch"),
                     word(document, "state") == "probation" ? ", on probation" : "",
                     document.value("swapping", false) ? ", a swap is under way" : "");
}

std::string shadow_words(const Json& document) {
  std::string out;
  for (const auto& [kind, shadow] : part(document, "shadow").items()) {
    const std::int64_t decisions = number(shadow, "decisions");
    const std::int64_t disagreed = number(shadow, "disagreed");
    out += fmt::format("shadow {}: {}, {} decisions, {} differ ({}), {} dropped, {} failed\n",
                       message_line(kind), word(shadow, "policy"), decisions, disagreed,
                       percent(disagreed, decisions), number(shadow, "dropped"),
                       number(shadow, "failed"));
  }
  return out;
}

std::string canary_words(const Json& document) {
  const Json& canary = part(document, "canary");
  std::string kinds;
  for (const auto& [kind, policy] : part(canary, "kinds").items())
    kinds += fmt::format("{} {} {}", kinds.empty() ? "" : ",", message_line(kind),
                         message_line(policy.get<std::string>()));
  if (kinds.empty()) return {};
  return fmt::format("canary for {:.1f} % of the sessions, {} decisions:{}\n",
                     100.0 * canary.value("share", 0.0), number(canary, "decisions"), kinds);
}

std::string fault_words(const Json& document) {
  std::string out;
  for (const Json& fault : part(document, "faults")) {
    out +=
        fmt::format("fault at {}: {} {}, {} times: {}\n", word(fault, "stage"), word(fault, "kind"),
                    word(fault, "policy"), number(fault, "times"), word(fault, "what"));
  }
  return out;
}

std::string rank_words(const Json& document) {
  std::string out = fmt::format("{:<16} {:>15} {:>11} {:>10} {:>9}\n", "rank", "kv blocks", "slots",
                                "steps", "preempted");
  for (const Json& rank : part(document, "ranks")) {
    const std::int64_t held = number(rank, "kv_blocks_held");
    const std::int64_t total = number(rank, "kv_blocks_total");
    out +=
        fmt::format("{:<16} {:>6} {:>8} {:>5}/{:<5} {:>10} {:>9}\n", word(rank, "name"), held,
                    percent(held, total), number(rank, "slots_held"), number(rank, "slots_total"),
                    number(rank, "steps"), number(rank, "preempted"));
  }
  return out;
}

std::string balance_text(const Json& experts, const char* key) {
  const auto found = experts.find(key);
  if (found == experts.end() || !found->is_number()) return "not known";
  return fmt::format("{:.3f}", found->get<double>());
}

/// "" where no rank reported expert loads and no map is live.
std::string expert_words(const Json& document) {
  const Json& experts = part(document, "experts");
  const std::int64_t epoch = number(experts, "epoch");
  if (epoch == 0 && number(experts, "reports") == 0) return {};
  std::string out =
      fmt::format("experts: {}, balancedness {} predicted, {} realised; {} maps, {} moves, {} "
                  "reports",
                  epoch == 0 ? "no map yet" : fmt::format("map of epoch {}", epoch),
                  balance_text(experts, "balancedness_predicted"),
                  balance_text(experts, "balancedness_realised"), number(experts, "plans"),
                  number(experts, "moves"), number(experts, "reports"));
  const std::int64_t bad = number(experts, "bad_layers");
  if (bad > 0) out += fmt::format(", {} layers left out", bad);
  return out + "\n";
}

std::string decision_words(const Json& document) {
  std::string out = fmt::format("{:<16} {:<16} {:<18} {:<16} {:>8} {:>5}\n", "stage", "kind",
                                "policy", "reason", "request", "rank");
  for (const Json& one : part(document, "decisions")) {
    const std::int64_t request = number(one, "request");
    out +=
        fmt::format("{:<16} {:<16} {:<18} {:<16} {:>8} {:>5}\n", word(one, "stage"),
                    word(one, "kind"), word(one, "policy"), word(one, "reason"),
                    request == 0 ? std::string("-") : std::to_string(request), number(one, "rank"));
  }
  return out;
}

} // namespace

std::string show_words(std::string_view document) {
  const Json show = Json::parse(document);
  std::string out = live_words(show) + "\n";
  const std::string file = word(show, "file");
  out += file.empty() ? "compiled in\n" : "from " + file + "\n";
  for (const auto& [kind, chosen] : part(show, "kinds").items()) {
    const std::string library = word(chosen, "library");
    out +=
        fmt::format("  {:<16} {}{}\n", message_line(kind), word(chosen, "policy"),
                    library.empty() ? std::string()
                                    : fmt::format(", of {} {}", library, word(chosen, "version")));
  }
  return out + shadow_words(show) + canary_words(show) + fault_words(show);
}

std::string diff_words(std::string_view document) {
  const Json diff = Json::parse(document);
  if (diff.value("equal", false)) return "no difference\n";
  std::string out;
  for (const Json& row : part(diff, "differences")) {
    const std::string before = word(row, "a");
    const std::string after = word(row, "b");
    out += fmt::format("{}: {} -> {}\n", word(row, "key"), before.empty() ? "none" : before,
                       after.empty() ? "none" : after);
  }
  return out;
}

std::string history_words(std::string_view document) {
  const Json history = Json::parse(document);
  std::string out = fmt::format("{:>6} {:<20} {:<9} {:>10} {:<10} {}\n", "epoch", "name", "how",
                                "live for", "probation", "reason");
  for (const Json& set : part(history, "sets")) {
    const bool is_live = part(set, "to_us").is_null();
    const std::string span =
        is_live ? std::string("live")
                : fmt::format("{} s", (number(set, "to_us") - number(set, "from_us")) / kUsPerS);
    out += fmt::format("{:>6} {:<20} {:<9} {:>10} {:<10} {}\n", number(set, "epoch"),
                       word(set, "name"), word(set, "how"), span,
                       set.value("passed", false) ? "passed"
                       : is_live                  ? "runs"
                                                  : "not passed",
                       word(set, "reason"));
  }
  return out;
}

std::string ended_words(std::string_view document) {
  const Json ended = Json::parse(document);
  const bool ok = ended.value("ok", false);
  // Each error of a file has a line of its own.
  const std::string reason = lines_of(ended.value("reason", std::string()));
  if (ok) {
    return fmt::format("policy set \"{}\" is live with epoch {}{}", word(ended, "name"),
                       number(ended, "epoch"), reason.empty() ? "" : ": " + reason);
  }
  return fmt::format("{}{}refused; policy set \"{}\", epoch {}, stays live", reason,
                     reason.find('\n') == std::string::npos ? "; " : "\n", word(ended, "name"),
                     number(ended, "epoch"));
}

std::string top_words(std::string_view document) {
  const Json top = Json::parse(document);
  const Json& job = part(top, "job");
  std::string out =
      fmt::format("{} done, {} failed, {} running, {} waiting   tokens/s: {} in, {} out\n{}\n\n",
                  number(job, "succeeded"), number(job, "failed"), number(job, "running"),
                  number(job, "waiting"), number(job, "prompt_tokens_per_s"),
                  number(job, "output_tokens_per_s"), live_words(top));
  out += shadow_words(top) + canary_words(top) + fault_words(top);
  return out + rank_words(top) + expert_words(top) + "\n" + decision_words(top);
}

} // namespace troupe::app
