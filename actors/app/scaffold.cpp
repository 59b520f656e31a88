#include "actors/app/scaffold.hpp"

#include "schedulers/core/options.hpp"
#include "schedulers/core/printable.hpp"
#include "schedulers/registry/policy_registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

namespace troupe::app {

namespace {

using Words = std::map<std::string, std::string>;

constexpr std::size_t kNameMax = 64;

/// What the templates of a kind need to know; each one has one option of whole numbers.
const std::map<std::string, Words>& kinds() {
  static const std::map<std::string, Words> all = {
      {"queue",
       {{"class", "Queue"},
        {"idea", "Earlier requests go first; each step of priority counts as a head start."},
        {"option", "head_start_us"},
        {"default", "1000000"},
        {"minimum", "0"},
        {"maximum", "1000000000000"},
        {"meaning", "Head start of one step of priority, in us."}}},
      {"prefill_router",
       {{"class", "PrefillRouter"},
        {"question", "troupe_router_question"},
        {"idea", "The rank with the least work ahead; each request that waits there counts extra."},
        {"option", "request_us"},
        {"default", "1000"},
        {"minimum", "0"},
        {"maximum", "1000000000"},
        {"meaning", "What a waiting request counts beside its work, in us."}}},
      {"decode_balancer",
       {{"class", "DecodeBalancer"},
        {"question", "troupe_balancer_question"},
        {"idea", "The rank with the least context; each running request counts as some tokens."},
        {"option", "request_tokens"},
        {"default", "1000"},
        {"minimum", "0"},
        {"maximum", "1000000"},
        {"meaning", "What a running request counts, in tokens of context."}}},
      {"prefill_chunker",
       {{"class", "PrefillChunker"},
        {"idea", "Prompts in order, none with more than a chunk, until the step is full."},
        {"option", "chunk_tokens"},
        {"default", "512"},
        {"minimum", "1"},
        {"maximum", "1000000"},
        {"meaning", "Most tokens of one prompt in a step."}}},
      {"admission",
       {{"class", "Admission"},
        {"idea", "Everybody, until too many wait."},
        {"option", "waiting_max"},
        {"default", "10000"},
        {"minimum", "1"},
        {"maximum", "1000000000"},
        {"meaning", "Waiting requests from which new ones are refused."}}},
      {"handoff",
       {{"class", "Handoff"},
        {"idea", "At once, but only so many at a time from one rank."},
        {"option", "transfers_max"},
        {"default", "4"},
        {"minimum", "1"},
        {"maximum", "10000"},
        {"meaning", "Most transfers of one source at a time."}}},
      {"step",
       {{"class", "Step"},
        {"idea", "Sequences that decode first, then slices into what is left."},
        {"option", "slice_tokens_max"},
        {"default", "512"},
        {"minimum", "1"},
        {"maximum", "1000000"},
        {"meaning", "Most tokens of one slice in a step."}}},
      {"overlap",
       {{"class", "Overlap"},
        {"idea", "Ahead while blocks are free, but not for steps shorter than their planning."},
        {"option", "host_percent_max"},
        {"default", "100"},
        {"minimum", "0"},
        {"maximum", "10000"},
        {"meaning", "Planning time at most, in percent of the step's time on the device."}}}};
  return all;
}

/// Puts values for @words@.
std::string filled(std::string_view text, const Words& words) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = text.find('@', at);
    const std::size_t end = begin == std::string_view::npos ? begin : text.find('@', begin + 1);
    if (end == std::string_view::npos) return out.append(text.substr(at));
    const auto word = words.find(std::string(text.substr(begin + 1, end - begin - 1)));
    out.append(text.substr(at, begin - at));
    TROUPE_CHECK(word != words.end(), "every word of a template has a value");
    out.append(word->second);
    at = end + 1;
  }
  return out;
}

std::string_view text_of(const std::string& file) {
  const auto found = scaffold_texts().find(file);
  TROUPE_CHECK(found != scaffold_texts().end(), "every template is compiled in");
  return found->second;
}

/// Code of the kind in the language: what its templates say, one after the other.
std::string body_of(const std::string& kind, const std::string& extension, const Words& words) {
  const bool places = words.count("question") != 0;
  const std::string own(text_of(kind + "." + extension + ".in"));
  if (!places || extension != "c") return filled(own, words);
  return filled(own + "\n" + std::string(text_of("placement.c.in")), words);
}

std::string test_of(const std::string& kind, const Words& words) {
  const bool places = words.count("question") != 0;
  return filled(text_of((places ? std::string("placement") : kind) + "_test.c.in"), words);
}

Status check_name(const std::string& name, const std::string& kind) {
  static const std::set<std::string> kTargets = {"all", "clean", "help", "install", "test"};
  const bool spelt = !name.empty() && name.size() <= kNameMax && name[0] >= 'a' && name[0] <= 'z' &&
                     std::all_of(name.begin(), name.end(), [](char c) {
                       return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
                     });
  if (!spelt || kTargets.count(name) != 0) {
    return Status(ErrorCode::bad_argument,
                  fmt::format("NAME: found {}, expected a letter and up to {} more of a-z, "
                              "0-9 and _, and no word of CMake's own",
                              quote(name), kNameMax - 1));
  }
  sched::PolicyRegistry registry;
  sched::register_builtin_policies(registry);
  if (registry.names(kind).count(name) == 0) return {};
  return Status(ErrorCode::bad_argument,
                fmt::format("NAME: \"{}\" is a built-in policy of the kind {}; a policy file could "
                            "not tell them apart, choose another name",
                            name, kind));
}

Status check_kind(const std::string& kind) {
  if (kinds().count(kind) != 0) return {};
  std::set<std::string> valid;
  for (const auto& [name, words] : kinds())
    valid.insert(name);
  const std::string near = nearest_name(kind, valid);
  return Status(ErrorCode::unknown_key,
                fmt::format("--kind: found {}, expected one of {}{}", quote(kind),
                            fmt::join(valid, ", "),
                            near.empty() ? "" : "; did you mean \"" + near + "\"?"));
}

} // namespace

Result<std::map<std::string, std::string>>
scaffold_files(const std::string& name, const std::string& kind, ScaffoldLanguage language) {
  if (const Status status = check_kind(kind); !status.ok()) return status.error();
  if (const Status status = check_name(name, kind); !status.ok()) return status.error();
  const bool is_c = language == ScaffoldLanguage::c;
  Words words = kinds().at(kind);
  words["name"] = name;
  words["kind"] = kind;
  words["extension"] = is_c ? "c" : "cpp";
  words["languages"] = is_c ? "C" : "C CXX";
  words["more_functions"] = kind == "queue" || kind == "prefill_chunker" ? ", NULL" : "";
  words["body"] = body_of(kind, words["extension"], words);
  std::map<std::string, std::string> files;
  files[name + "." + words["extension"]] =
      filled(text_of("frame." + words["extension"] + ".in"), words);
  words["body"] = test_of(kind, words);
  files[name + "_test.c"] = filled(text_of("frame_test.c.in"), words);
  files["CMakeLists.txt"] = filled(text_of("CMakeLists.txt.in"), words);
  files["README.md"] = filled(text_of("README.md.in"), words);
  return files;
}

} // namespace troupe::app
