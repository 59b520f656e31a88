// Goal: a wrong system file, policy file or override gives exactly one message with file, line and
// key, and never a crash, a hang or half a configuration.
// Method: tables of texts; special files on disk; nesting of every kind far beyond the limit.

#include "actors/app/config_bind.hpp"
#include "actors/app/config_loader.hpp"
#include "tests/actors/app/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>

namespace troupe::app {
namespace {

constexpr int kDeep = 50'000;

std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i)
    out += text;
  return out;
}

struct BadText {
  std::string name;
  std::string text;
  std::vector<std::string> parts; ///< All of them stand in the one message.
};

void expect_one(const std::vector<ConfigError>& errors, const std::vector<std::string>& parts) {
  ASSERT_EQ(errors.size(), 1U) << error_lines(errors);
  const std::string message = errors[0].text();
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
  EXPECT_LE(message.size(), 1000U);
  for (const char c : message)
    EXPECT_GE(static_cast<unsigned char>(c), 0x20U) << "a control character in " << message;
}

std::vector<BadText> hostile_texts() {
  const std::string deep = "nesting deeper than 32 brackets or 16 parts";
  return {
      {"nul_byte", std::string("[kv]\nmemory = \"1\0\"\n", 19), {"f.toml:2", "no TOML"}},
      {"nul_between", std::string("[kv]\n\0\n", 7), {"f.toml:2", "no TOML"}},
      {"carriage_return_alone", "[kv]\rmemory = 1\n", {"f.toml:1", "no TOML"}},
      {"utf16", std::string("[\0k\0v\0]\0", 8), {"f.toml:1", "no TOML"}},
      {"broken_utf8_in_a_key", "[kv]\n\"m\xC3\x28\" = 1\n", {"f.toml:2", "no TOML"}},
      {"overlong_utf8", "[cluster]\nname = \"\xC0\xAF\"\n", {"f.toml:2", "no TOML"}},
      {"lone_surrogate", "[cluster]\nname = \"\\uD800\"\n", {"f.toml:2", "no TOML"}},
      {"text_without_end", "[cluster]\nname = \"x\n[kv]\n", {"f.toml:2", "no TOML"}},
      {"long_text_without_end", "[cluster]\nname = \"\"\"x\n\n\n", {"f.toml:", "no TOML"}},
      {"table_twice", "[kv]\n[log]\n[kv]\n", {"f.toml:3", "no TOML"}},
      {"table_and_list", "[[kv]]\n[kv]\n", {"f.toml:2", "no TOML"}},
      {"integer_too_large", "[cluster]\nseed = 9223372036854775808\n", {"f.toml:2", "no TOML"}},
      {"integer_with_zero", "[cluster]\nseed = 01\n", {"f.toml:2", "no TOML"}},
      {"yes_for_true", "[sampling]\nthinking = yes\n", {"f.toml:2", "no TOML"}},
      {"colon_for_equals", "[cluster]\nname: \"x\"\n", {"f.toml:2", "no TOML"}},
      {"two_values", "[cluster]\nseed = 1 2\n", {"f.toml:2", "no TOML"}},
      {"a_line_of_a_megabyte", "[cluster]\nname = " + std::string(1 << 20, 'x'), {"f.toml:2"}},
      {"lists_too_deep", "[cluster]\nname = " + repeated("[", kDeep), {"f.toml:2", deep}},
      {"lists_too_deep_and_closed",
       "[cluster]\nname = " + repeated("[", kDeep) + repeated("]", kDeep),
       {"f.toml:2", deep}},
      {"tables_too_deep", "x = " + repeated("{a=", kDeep), {"f.toml:1", deep}},
      {"key_too_deep", "[cluster]\n" + repeated("a.", kDeep) + "a = 1\n", {"f.toml:2", deep}},
      {"quoted_key_too_deep", repeated("\"a\" . ", kDeep) + "a = 1\n", {"f.toml:1", deep}},
      {"header_too_deep", "\n\n[" + repeated("a.", kDeep) + "a]\n", {"f.toml:3", deep}},
      {"list_header_too_deep", "[[" + repeated("a.", kDeep) + "a]]\n", {"f.toml:1", deep}},
      {"keys_in_tables_too_deep",
       "x = " + repeated("{" + repeated("a.", 10) + "a=", kDeep),
       {"f.toml:1", deep}},
      {"newline_in_a_key", "[kv]\n\"a\\nb\" = 1\n", {"f.toml:2: kv.a\\x0ab: unknown key"}},
      {"escape_in_a_table", "[\"\\u001b[31m\"]\n", {"f.toml:1: \\x1b[31m: unknown table"}},
      {"empty_key", "[kv]\n\"\" = 1\n", {"f.toml:2: kv.: unknown key"}},
      {"dotted_table", "[kv.memory]\nx = 1\n", {"f.toml:1: kv.memory: found a table"}},
      {"list_of_tables_for_a_table", "[[limits]]\n", {"f.toml:1: limits: found an array"}},
      {"infinite", "[sampling]\ntemperature = inf\n", {"f.toml:2: sampling.temperature"}},
      {"minus_zero_point", "[sampling]\ntop_p = -0.0\n", {"f.toml:2: sampling.top_p"}},
      {"size_as_real", "[kv]\nmemory = 1e9\n", {"f.toml:2: kv.memory", "expected a size"}},
      {"size_of_nothing", "[kv]\nmemory = \"\"\n", {"f.toml:2: kv.memory", "expected a size"}},
      {"size_with_blank_end", "[kv]\nmemory = \"1MiB \"\n", {"f.toml:2: kv.memory"}},
      {"size_zero", "[kv]\nmemory = 0\n", {"f.toml:2: kv.memory", "from 64KiB"}},
      {"duration_text", "[journal]\nflush_ms = \"200ms\"\n", {"f.toml:2: journal.flush_ms"}},
      {"duration_zero", "[limits]\nno_progress_s = 0\n", {"f.toml:2: limits.no_progress_s"}},
      {"block_zero", "[kv]\nblock_tokens = 0\n", {"f.toml:2: kv.block_tokens", "from 1 to"}},
      {"path_is_a_list", "[model]\npath = [\"a\"]\n", {"f.toml:2: model.path: found an array"}},
      {"level_unknown",
       "[log]\nlevel = \"loud\"\n",
       {"f.toml:2: log.level", "\"loud\"", "\"info\""}},
      {"sync_unknown", "[journal]\nsync = \"never\"\n", {"journal.sync", "\"batch\", \"line\""}},
      {"rank_is_text", "rank = \"both\"\n", {"f.toml:1: rank: found the text"}},
      {"rank_is_empty", "rank = []\n", {"f.toml:1: rank: found an array", "[[rank]]"}},
      {"rank_of_numbers", "rank = [1]\n", {"f.toml:1: rank: found the integer 1", "[[rank]]"}},
      {"rank_name_long",
       "[[rank]]\nname = \"" + std::string(65, 'a') + "\"\n",
       {"f.toml:1: rank.name", "1 to 64 letters"}},
      {"rank_threads", "[[rank]]\nname = \"a\"\nthreads = 0\n", {"f.toml:3: rank.a.threads"}},
      {"rank_device", "[[rank]]\nname = \"a\"\ndevice = \"gpu\"\n", {"f.toml:3: rank.a.device"}},
      {"speed_negative", "[cost_model]\nnull_speed = -1\n", {"f.toml:2: cost_model.null_speed"}},
  };
}

class HostileTexts : public testing::TestWithParam<BadText> {};

TEST_P(HostileTexts, GiveOneMessage) {
  const ConfigOutcome outcome = parse_system_config(GetParam().text, "f.toml");
  std::vector<std::string> parts = GetParam().parts;
  parts.push_back("f.toml");
  expect_one(outcome.errors, parts);
  EXPECT_EQ(outcome.config, SystemConfig()) << "all or nothing";
}

INSTANTIATE_TEST_SUITE_P(Texts, HostileTexts, testing::ValuesIn(hostile_texts()),
                         [](const auto& tested) { return tested.param.name; });

TEST(SystemFile, FormsThatAreGood) {
  const std::pair<const char*, std::string> forms[] = {
      {"nothing", ""},
      {"comments", "# one\n  # two\n"},
      {"mark", "\xEF\xBB\xBF[kv]\nmemory = \"1MiB\"\n"},
      {"windows", "[kv]\r\nmemory = \"1MiB\"\r\n"},
      {"no_last_newline", "[kv]\nmemory = \"1MiB\""},
      {"quoted_keys", "['kv']\n\"memory\" = '1MiB'\n"},
      {"dotted_keys", "kv.memory = \"1MiB\"\n"},
      {"inline", "kv = {memory = \"1MiB\"}\n"},
      {"dots_in_texts", "[cluster]\nname = \"" + repeated("a.", 100) + "\"\n"},
      {"brackets_in_texts", "[cluster]\nname = '''\n" + repeated("[{", 100) + "'''\n"},
      {"dots_in_comments", "# " + repeated("a.", 100) + repeated("[", 100) + "\n[kv]\n"}};
  for (const auto& [name, text] : forms) {
    const ConfigOutcome outcome = parse_system_config(text, "f.toml");
    EXPECT_TRUE(outcome.ok()) << name << ": " << error_lines(outcome.errors);
  }
}

TEST(SystemFile, SpecialFilesAreRefusedAtOnce) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", folder.path("zeros"));
  std::filesystem::create_symlink(folder.path("loop"), folder.path("loop"));
  std::filesystem::create_directory(folder.path("folder"));
  const std::pair<const char*, const char*> kinds[] = {{"pipe", "is a pipe, socket or device"},
                                                       {"zeros", "is a pipe, socket or device"},
                                                       {"loop", "cannot be opened"},
                                                       {"folder", "is a folder"},
                                                       {"absent", "cannot be opened"}};
  sched::PolicyRegistry registry;
  sched::register_builtin_policies(registry);
  for (const auto& [name, part] : kinds) {
    const std::string path = folder.path(name);
    expect_one(load_system_config(path).errors, {path + ": ", part, "expected"});
    expect_one(load_policy_file(path, registry).errors, {path + ": ", part, "expected"});
  }
}

class BadOverrides : public testing::TestWithParam<BadText> {};

TEST_P(BadOverrides, GiveOneMessage) {
  std::vector<std::string> parts = GetParam().parts;
  parts.push_back("--set");
  expect_one(load_system_config("", {GetParam().text}).errors, parts);
}

INSTANTIATE_TEST_SUITE_P(
    Overrides, BadOverrides,
    testing::Values(BadText{"empty", "", {"expected table.key=VALUE"}},
                    BadText{"only_equals", "=", {"expected table.key=VALUE"}},
                    BadText{"no_value", "kv.memory", {"expected table.key=VALUE"}},
                    BadText{"no_table", "memory=1", {"expected table.key=VALUE"}},
                    BadText{"empty_part", "kv..memory=1", {"expected table.key=VALUE"}},
                    BadText{"very_deep", repeated("a.", kDeep) + "a=1", {"table.key=VALUE"}},
                    BadText{"empty_value", "kv.memory=", {"kv.memory", "expected a size"}},
                    BadText{"deep_value",
                            "kv.memory=" + repeated("[", kDeep),
                            {"kv.memory", "expected a size"}},
                    BadText{"deep_table_value",
                            "kv.memory=" + repeated("{a=", kDeep),
                            {"kv.memory", "expected a size"}},
                    BadText{"deep_key_value",
                            "kv.memory={" + repeated("a.", kDeep) + "a=1}",
                            {"kv.memory", "expected a size"}},
                    BadText{"table_value", "kv.memory={a=1}", {"kv.memory", "expected a size"}},
                    BadText{"table_unknown", "limit.x=1", {"--set: limit: unknown", "\"limits\""}},
                    BadText{"rank_without_key", "rank.prefill=1", {"expected rank.NAME.key"}},
                    BadText{"rank_unknown", "rank.x.count=1", {"no group of ranks"}},
                    BadText{"rank_key_unknown", "rank.decode.thread=1", {"\"threads\""}}),
    [](const auto& tested) { return tested.param.name; });

std::vector<BadText> bad_policies() {
  const std::string named = "name = \"n\"\n";
  return {
      {"empty", "", {"p.toml: name: it is missing", "name = \"...\""}},
      {"comments_only", "# name = \"n\"\n", {"name: it is missing"}},
      {"name_empty", "name = \"\"\n", {"p.toml:1: name", "not empty"}},
      {"name_a_number", "name = 5\n", {"p.toml:1: name: found the integer 5"}},
      {"no_toml", named + "[queue\n", {"p.toml:2", "no TOML"}},
      {"nul_byte", named + std::string("[queue]\npolicy = \"\0\"\n", 20), {"p.toml:3", "no TOML"}},
      {"deep", named + repeated("a.", kDeep) + "a = 1\n", {"p.toml:2", "nesting deeper"}},
      {"kind_unknown", named + "[qeue]\n", {"p.toml:2: qeue: unknown kind", "\"queue\""}},
      {"kind_far", named + "[weather]\n", {"p.toml:2: weather: unknown kind", "valid here:"}},
      {"kind_a_text", named + "queue = \"fcfs\"\n", {"p.toml:2: queue: found the text"}},
      {"kind_a_list", named + "[[queue]]\n", {"p.toml:2: queue: found an array"}},
      {"kind_twice", named + "[queue]\n[queue]\n", {"p.toml:3", "no TOML"}},
      {"policy_unknown",
       named + "[decode_balancer]\npolicy = \"least_cont\"\n",
       {"p.toml:3: decode_balancer.policy", "\"least_count\""}},
      {"policy_a_number", named + "[queue]\npolicy = 1\n", {"p.toml:3: queue.policy: found"}},
      {"policy_empty",
       named + "[queue]\npolicy = \"\"\n",
       {"p.toml:3: queue.policy", "valid here:"}},
  };
}

std::vector<BadText> bad_options() {
  const std::string named = "name = \"n\"\n";
  return {
      {"option_unknown",
       named + "[prefill_chunker]\npolicy = \"time_budget\"\nbudget_su = 5\n",
       {"p.toml:4: prefill_chunker.budget_su: unknown key", "\"budget_us\""}},
      {"option_of_another_policy",
       named + "[prefill_chunker]\npolicy = \"fixed\"\nbudget_us = 5\n",
       {"p.toml:4: prefill_chunker.budget_us: unknown key"}},
      {"option_zero",
       named + "[prefill_chunker]\nbudget_us = 0\n",
       {"p.toml:3: prefill_chunker.budget_us: found 0, expected a whole number from 1"}},
      {"option_huge",
       named + "[prefill_chunker]\nbudget_us = 9223372036854775807\n",
       {"p.toml:3: prefill_chunker.budget_us: found 9223372036854775807"}},
      {"option_text",
       named + "[prefill_chunker]\nbudget_us = \"5\"\n",
       {"p.toml:3: prefill_chunker.budget_us: found \"5\""}},
      {"option_real",
       named + "[prefill_chunker]\nbudget_us = 5.5\n",
       {"p.toml:3: prefill_chunker.budget_us: found 5.5"}},
      {"option_a_list", named + "[admission]\nmargin = [1]\n", {"p.toml:3: admission.margin"}},
      {"option_a_date",
       named + "[admission]\nmargin = 2020-01-01\n",
       {"p.toml:3: admission.margin: found a date"}},
      {"option_nan", named + "[admission]\nmargin = nan\n", {"p.toml:3: admission.margin"}},
      {"option_infinite", named + "[admission]\nmargin = inf\n", {"p.toml:3: admission.margin"}},
      {"option_negative",
       named + "[decode_balancer]\nheadroom = -0.1\n",
       {"p.toml:3: decode_balancer.headroom"}},
      {"option_of_no_options",
       named + "[handoff]\npolicy = \"whole\"\nrate = 3\n",
       {"p.toml:4: handoff.rate: unknown key"}},
      {"weight_a_text",
       named + "[queue]\npolicy = \"weighted_fair\"\nweights = { a = \"x\" }\n",
       {"p.toml:4: queue.weights.a: found \"x\", expected a number"}},
      {"weight_negative",
       named + "[queue]\npolicy = \"weighted_fair\"\nweights = { a = -1 }\n",
       {"p.toml:4: queue.weights.a: found -1, expected a number"}},
      {"weights_of_another_policy",
       named + "[queue]\npolicy = \"fcfs\"\nweights = { a = 1 }\n",
       {"p.toml:4: queue.weights.a: unknown key"}},
      {"wait_bound_zero",
       named + "[queue.wait_bound]\nmax_us = 0\n",
       {"p.toml:3: queue.wait_bound.max_us: found 0, expected"}},
      {"wait_bound_misspelt",
       named + "[queue.wait_bound]\nmax_ms = 5\n",
       {"p.toml:3: queue.wait_bound.max_ms: unknown key"}},
      {"newline_in_a_name", "name = \"n\"\n[\"a\\nb\"]\n", {"p.toml:2: a\\x0ab: unknown kind"}},
  };
}

class BadPolicies : public testing::TestWithParam<BadText> {};

TEST_P(BadPolicies, GiveOneMessage) {
  sched::PolicyRegistry registry;
  sched::register_builtin_policies(registry);
  const PolicyOutcome outcome = parse_policy_file(GetParam().text, "p.toml", registry);
  expect_one(outcome.errors, GetParam().parts);
  EXPECT_TRUE(outcome.set.kinds.empty()) << "all or nothing";
}

INSTANTIATE_TEST_SUITE_P(Options, BadPolicies, testing::ValuesIn(bad_options()),
                         [](const auto& tested) { return tested.param.name; });
INSTANTIATE_TEST_SUITE_P(Policies, BadPolicies, testing::ValuesIn(bad_policies()),
                         [](const auto& tested) { return tested.param.name; });

} // namespace
} // namespace troupe::app
