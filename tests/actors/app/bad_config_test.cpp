// Goal: a wrong system file, policy file or override gives exactly one message with file, line and
// key, and never a crash, a hang or half a configuration.
// Method: tables of texts; special files on disk; nesting of every kind far beyond the limit.

#include "actors/app/config_bind.hpp"
#include "actors/app/config_loader.hpp"
#include "actors/app/config_sim.hpp"
#include "tests/actors/app/temporary_folder.hpp"
#include "tests/support/unsized_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
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
  };
}

std::vector<BadText> wrong_values() {
  return {
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
      {"speed_negative", "[cost_model]\nnull_speed = -1\n", {"f.toml:2: cost_model.null_speed"}},
  };
}

std::vector<BadText> wrong_ranks() {
  return {
      {"rank_is_text", "rank = \"both\"\n", {"f.toml:1: rank: found the text"}},
      {"rank_is_empty", "rank = []\n", {"f.toml:1: rank: found an array", "[[rank]]"}},
      {"rank_of_numbers", "rank = [1]\n", {"f.toml:1: rank: found the integer 1", "[[rank]]"}},
      {"rank_name_long",
       "[[rank]]\nname = \"" + std::string(65, 'a') + "\"\n",
       {"f.toml:2: rank.name", "1 to 64 letters"}},
      {"rank_name_very_long",
       "[[rank]]\nname = \"" + std::string(10'000, 'a') + "\"\n",
       {"f.toml:2: rank.name: found \"aaa", "...\" (10000 bytes), expected 1 to 64 letters"}},
      {"rank_name_very_long_and_a_wrong_key",
       "[[rank]]\nname = \"" + std::string(10'000, 'a') + "\"\nthread = 1\n",
       {"f.toml:3: rank.aaa", "... (", "unknown key", "\"threads\""}},
      {"key_very_long",
       "[kv]\n" + std::string(10'000, 'k') + " = 1\n",
       {"f.toml:2: kv.kkk", "... (10003 bytes): unknown key"}},
      {"text_very_long",
       "[kv]\nmemory = \"" + std::string(10'000, 'm') + "\"\n",
       {"f.toml:2: kv.memory: found the text \"mmm", "(10000 bytes), expected a size"}},
      {"rank_threads", "[[rank]]\nname = \"a\"\nthreads = 0\n", {"f.toml:3: rank.a.threads"}},
      {"rank_device", "[[rank]]\nname = \"a\"\ndevice = \"gpu\"\n", {"f.toml:3: rank.a.device"}},
      {"devices_wrong_and_beside_another",
       "[[rank]]\nname = \"a\"\ndevice = \"cuda:0\"\n[[rank]]\nname = \"b\"\n"
       "device = \"null\"\n",
       {"f.toml:3: rank.a.device: found the text \"cuda:0\"", "this build has no CUDA"}},
      {"role_wrong_beside_a_rank_of_both",
       "[[rank]]\nrole = \"prefil\"\n[[rank]]\nrole = \"both\"\n",
       {"f.toml:2: rank.prefil.role: found the text \"prefil\""}},
      {"role_of_a_wrong_type",
       "[[rank]]\nrole = 1\n[[rank]]\nrole = \"both\"\n",
       {"f.toml:2: rank.both.role: found the integer 1"}},
      {"three_groups_of_one_name",
       "[[rank]]\nname = \"a\"\n[[rank]]\nname = \"b\"\n[[rank]]\nname = \"b\"\n",
       {"f.toml:6: rank.name: found a second group \"b\""}},
      {"no_load_anywhere",
       "[cost_model]\nsequence = 0\ncontext_token = 0\n[[rank]]\nname = \"a\"\n"
       "[rank.cost_model]\nstep = 1\n",
       {"f.toml:1: cost_model: found sequence = context_token = 0"}},
      {"no_rank_that_decodes",
       "\n[[rank]]\nrole = \"prefill\"\n",
       {"f.toml:2: rank.role: found only ranks of role \"prefill\"", "no rank can decode",
        "role = \"decode\" or \"both\""}},
      {"no_rank_that_prefills",
       "[[rank]]\nrole = \"decode\"\ncount = 3\n",
       {"f.toml:1: rank.role: found only ranks of role \"decode\"", "no rank can prefill"}},
  };
}

std::vector<BadText> wrong_types() {
  return {
      {"whole_real",
       "[limits]\nrequests_max = 5.0\n",
       {"f.toml:2: limits.requests_max: found the number 5.0, expected an integer from 1 to",
        "write it without a point, as in 5"}},
      {"negative_zero_for_an_integer",
       "[limits]\npreemptions_max = -0.0\n",
       {"limits.preemptions_max: found the number -0.0, expected an integer"}},
      {"huge_real_for_an_integer",
       "[limits]\nrequests_max = 1e300\n",
       {"limits.requests_max: found the number 1e+300, expected an integer from 1 to"}},
      {"nan_for_an_integer",
       "[limits]\nrequests_max = nan\n",
       {"limits.requests_max: found the number nan, expected an integer"}},
      {"boolean_for_an_integer",
       "[limits]\nrequests_max = true\n",
       {"limits.requests_max: found true, expected an integer"}},
      {"boolean_for_a_size", "[kv]\nmemory = true\n", {"kv.memory: found true, expected a size"}},
      {"time_for_an_integer",
       "[limits]\nrequests_max = 05:00:00\n",
       {"limits.requests_max: found a date or time, expected an integer"}},
      {"whole_real_for_a_size",
       "[kv]\nmemory = 1048576.0\n",
       {"kv.memory: found the number 1048576.0, expected a size"}},
      {"integer_for_a_boolean",
       "[sampling]\nthinking = 1\n",
       {"sampling.thinking: found the integer 1, expected true or false"}},
      {"integer_for_a_choice",
       "[model]\ncpu_path = 1\n",
       {"model.cpu_path: found the integer 1, expected one of \"auto\""}},
      {"array_for_a_table", "limits = [1, 2]\n", {"f.toml:1: limits: found an array"}},
      {"control_bytes_in_a_text",
       "[model]\ncpu_path = \"\\u001b[31m\\u202e\"\n",
       {"model.cpu_path: found the text \"\\x1b[31m\\u202e\""}},
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
INSTANTIATE_TEST_SUITE_P(Values, HostileTexts, testing::ValuesIn(wrong_values()),
                         [](const auto& tested) { return tested.param.name; });
INSTANTIATE_TEST_SUITE_P(Ranks, HostileTexts, testing::ValuesIn(wrong_ranks()),
                         [](const auto& tested) { return tested.param.name; });
INSTANTIATE_TEST_SUITE_P(Types, HostileTexts, testing::ValuesIn(wrong_types()),
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

TEST(SystemFile, OneThatIsToldToBeEmptyIsReadAllTheSame) {
  sched::PolicyRegistry registry;
  sched::register_builtin_policies(registry);
  {
    const test::UnsizedFile file("limits = 3");
    expect_one(load_system_config(file.path()).errors, {file.path() + ":1: limits: found"});
    expect_one(load_sim_file(file.path(), registry).errors, {file.path() + ":1: limits: found"});
  }
  const test::UnsizedFile file("name = \"mine\"");
  const PolicyOutcome policies = load_policy_file(file.path(), registry);
  ASSERT_TRUE(policies.ok()) << error_lines(policies.errors);
  EXPECT_EQ(policies.set.name, "mine");
}

TEST(ConfigErrors, OfVeryManyTheFirstHundredAreSaid) {
  std::vector<ConfigError> errors;
  for (int i = 0; i < 1'000; ++i)
    errors.push_back({"f.toml", i + 1, "k", "wrong"});
  const std::string lines = error_lines(errors);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 100);
  EXPECT_NE(lines.find("f.toml:100: k: wrong\nand 900 more like these"), std::string::npos);
}

class BadOverrides : public testing::TestWithParam<BadText> {};

TEST_P(BadOverrides, GiveOneMessage) {
  std::vector<std::string> parts = GetParam().parts;
  parts.push_back("--set");
  expect_one(load_system_config("", {GetParam().text}).errors, parts);
}

INSTANTIATE_TEST_SUITE_P(
    Overrides, BadOverrides,
    testing::Values(
        BadText{"empty", "", {"expected table.key=VALUE"}},
        BadText{"only_equals", "=", {"expected table.key=VALUE"}},
        BadText{"no_value", "kv.memory", {"expected table.key=VALUE"}},
        BadText{"no_table", "memory=1", {"expected table.key=VALUE"}},
        BadText{"empty_part", "kv..memory=1", {"expected table.key=VALUE"}},
        BadText{"very_deep", repeated("a.", kDeep) + "a=1", {"table.key=VALUE"}},
        BadText{"empty_value", "kv.memory=", {"kv.memory", "expected a size"}},
        BadText{
            "deep_value", "kv.memory=" + repeated("[", kDeep), {"kv.memory", "expected a size"}},
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
        BadText{"rank_key_unknown", "rank.decode.thread=1", {"\"threads\""}},
        BadText{"quoted_unknown", "\"limit\".x=1", {"limit: unknown", "\"limits\""}},
        BadText{"quoted_real",
                "\"limits\".requests_max=5.0",
                {"limits.requests_max: found the number 5.0", "as in 5"}},
        BadText{"quote_without_end", "\"limits.requests_max=5", {"table.key=VALUE"}},
        BadText{"quoted_empty", "limits.\"\"=5", {"table.key=VALUE"}},
        BadText{"equals_in_quotes", "limits.\"a=b\"=5", {"limits.a=b: unknown key", "valid here:"}},
        BadText{"newline_in_a_key", "limits\n.requests_max=5", {"table.key=VALUE"}},
        BadText{"escape_in_a_key", "limits.\"\\u001b\"=5", {"limits.\\x1b: unknown key"}},
        BadText{"table_header", "[limits].requests_max=5", {"table.key=VALUE"}},
        BadText{"inline_table", "{a}.b=5", {"table.key=VALUE"}},
        BadText{"comment_in_a_key", "limits#.requests_max=5", {"table.key=VALUE"}},
        BadText{"key_very_long",
                "limits." + std::string(10'000, 'k') + "=1",
                {"limits.kkk", "bytes): unknown key"}},
        BadText{"group_very_long",
                "rank." + std::string(10'000, 'k') + ".count=1",
                {"rank.kkk", "bytes): there is no group", "valid here: decode"}},
        BadText{"value_below_a_value",
                "kv.memory.a.b=1",
                {"kv.memory: found a table, expected a size"}},
        BadText{"no_decode",
                "rank.decode.role=prefill",
                {"--set: rank.role: found only", "no rank can decode"}}),
    [](const auto& tested) { return tested.param.name; });

std::vector<BadText> bad_policies() {
  const std::string named = "name = \"n\"\n";
  return {
      {"empty", "", {"p.toml: name: it is missing", "name = \"...\""}},
      {"comments_only", "# name = \"n\"\n", {"name: it is missing"}},
      {"name_empty", "name = \"\"\n", {"p.toml:1: name", "not empty"}},
      {"name_a_number", "name = 5\n", {"p.toml:1: name: found the integer 5"}},
      {"name_very_long",
       "name = \"" + std::string(10'000, 'n') + "\"\n",
       {"p.toml:1: name: found the text \"nnn", "at most 120 bytes"}},
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
      {"option_whole_real",
       named + "[prefill_chunker]\nbudget_us = 5.0\n",
       {"p.toml:3: prefill_chunker.budget_us: found 5.0, expected a whole number from 1"}},
      {"option_empty_table",
       named + "[prefill_chunker]\nbudget_us = {}\n",
       {"p.toml:3: prefill_chunker.budget_us: found an empty table"}},
      {"option_empty_list",
       named + "[prefill_chunker]\nbudget_us = []\n",
       {"p.toml:3: prefill_chunker.budget_us: found an empty list"}},
      {"option_name_very_long",
       named + "[queue]\n" + std::string(10'000, 'k') + " = 1\n",
       {"p.toml:3: queue.kkk", "bytes): unknown key"}},
      {"wait_bound_a_list",
       named + "[queue]\nwait_bound = [1]\n",
       {"p.toml:3: queue.wait_bound: found a list, expected a table with the keys max_us"}},
      {"wait_bound_a_number",
       named + "[queue]\nwait_bound = 1\n",
       {"p.toml:3: queue.wait_bound: found 1, expected a table with the keys max_us"}},
      {"weights_a_list",
       named + "[queue]\npolicy = \"weighted_fair\"\nweights = [1]\n",
       {"p.toml:4: queue.weights: found a list, expected a table of names and numbers"}},
  };
}

std::vector<BadText> bad_option_values() {
  const std::string named = "name = \"n\"\n";
  return {
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

/// Every wrong shape of the parts that a placement is composed of.
std::vector<BadText> bad_filters() {
  const std::string begin = "name = \"n\"\n[prefill_router]\npolicy = \"scored\"\n";
  const std::string by = "expected one of \"";
  const std::string key = "p.toml:4: prefill_router.";
  const std::string list = "expected a list, as in filters = [\"alive\", \"has_room\"]";
  return {
      {"filters_a_text", begin + "filters = \"alive\"\n", {key + "filters: found \"alive\"", list}},
      {"filters_a_number", begin + "filters = 1\n", {key + "filters: found 1", list}},
      {"filters_true", begin + "filters = true\n", {key + "filters: found true", list}},
      {"filters_a_table", begin + "filters = { a = 1 }\n", {key + "filters: found a table", list}},
      {"filters_an_empty_table", begin + "filters = {}\n", {key + "filters: found an empty table"}},
      {"filters_empty", begin + "filters = []\n", {key + "filters: found an empty list"}},
      {"filters_of_numbers",
       begin + "filters = [1]\n",
       {key + "filters[0]: found 1", by + "alive"}},
      {"filters_of_lists",
       begin + "filters = [[\"alive\"]]\n",
       {key + "filters[0]: found a list", by + "alive"}},
      {"filters_of_tables",
       begin + "filters = [{ by = \"alive\" }]\n",
       {key + "filters[0]: found a table", by + "alive"}},
      {"filters_with_an_empty_list",
       begin + "filters = [\"alive\", []]\n",
       {key + "filters[1]: found an empty list"}},
      {"filters_with_an_empty_table",
       begin + "filters = [{}, \"alive\"]\n",
       {key + "filters[0]: found an empty table"}},
      {"filters_misspelt",
       begin + "filters = [\"alife\"]\n",
       {key + "filters[0]: found \"alife\"", by + "alive"}},
      {"pick_a_list", begin + "pick = [\"best\"]\n", {key + "pick: found a list", by + "best"}},
      {"pick_a_table", begin + "pick = { a = 1 }\n", {key + "pick: found a table", by + "best"}},
      {"pick_an_empty_table", begin + "pick = {}\n", {key + "pick: found an empty table"}},
      {"pick_a_number", begin + "pick = 2\n", {key + "pick: found 2", by + "best"}},
  };
}

std::vector<BadText> bad_scores() {
  const std::string begin = "name = \"n\"\n[prefill_router]\npolicy = \"scored\"\n";
  const std::string by = "expected one of \"";
  const std::string key = "p.toml:4: prefill_router.";
  const std::string tables = "expected a list, as in score = [{ by = ";
  const std::string table = "expected a table, as in score = [{ by = ";
  return {
      {"score_a_number", begin + "score = 5\n", {key + "score: found 5", tables}},
      {"score_a_text",
       begin + "score = \"least_work\"\n",
       {key + "score: found \"least_work", tables}},
      {"score_a_table",
       begin + "score = { by = \"least_work\" }\n",
       {key + "score: found a table", tables}},
      {"score_of_texts",
       begin + "score = [\"least_work\"]\n",
       {key + "score[0]: found \"least_work\"", table}},
      {"score_of_lists",
       begin + "score = [[{ by = \"least_work\" }]]\n",
       {key + "score[0]: found a list", table}},
      {"score_of_an_empty_table",
       begin + "score = [{}]\n",
       {key + "score[0]: found an empty table"}},
      {"score_begins_with_an_empty_table",
       begin + "[[prefill_router.score]]\n[[prefill_router.score]]\nby = \"least_work\"\n",
       {key + "score[0]: found an empty table"}},
      {"score_by_a_list",
       begin + "score = [{ by = [\"least_work\"] }]\n",
       {key + "score[0].by: found", "expected"}},
      {"score_by_a_table",
       begin + "score = [{ by = { a = 1 } }]\n",
       {key + "score[0].by: found a table", by}},
      {"score_by_a_number", begin + "score = [{ by = 1 }]\n", {key + "score[0].by: found 1", by}},
      {"score_weight_a_text",
       begin + "score = [{ by = \"least_work\", weight = \"1\" }]\n",
       {key + "score[0].weight: found \"1\", expected a number from 0 to 1000"}},
      {"score_weight_negative",
       begin + "score = [{ by = \"least_work\", weight = -1 }]\n",
       {key + "score[0].weight: found -1, expected a number from 0 to 1000"}},
      {"score_weight_nan",
       begin + "score = [{ by = \"least_work\", weight = nan }]\n",
       {key + "score[0].weight: found nan, expected a number from 0 to 1000"}},
      {"score_weight_infinite",
       begin + "score = [{ by = \"least_work\", weight = inf }]\n",
       {key + "score[0].weight: found inf, expected a number"}},
      {"score_key_unknown",
       begin + "score = [{ by = \"least_work\", wait = 1 }]\n",
       {key + "score[0].wait: unknown key", "\"score[0].weight\""}},
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

INSTANTIATE_TEST_SUITE_P(Filters, BadPolicies, testing::ValuesIn(bad_filters()),
                         [](const auto& tested) { return tested.param.name; });
INSTANTIATE_TEST_SUITE_P(Scores, BadPolicies, testing::ValuesIn(bad_scores()),
                         [](const auto& tested) { return tested.param.name; });
INSTANTIATE_TEST_SUITE_P(Options, BadPolicies, testing::ValuesIn(bad_options()),
                         [](const auto& tested) { return tested.param.name; });
INSTANTIATE_TEST_SUITE_P(OptionValues, BadPolicies, testing::ValuesIn(bad_option_values()),
                         [](const auto& tested) { return tested.param.name; });
INSTANTIATE_TEST_SUITE_P(Policies, BadPolicies, testing::ValuesIn(bad_policies()),
                         [](const auto& tested) { return tested.param.name; });

} // namespace
} // namespace troupe::app
