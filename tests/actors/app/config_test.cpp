// Goal: a configuration is taken whole or refused with file, line, key, found and expected.
// Method: a table of bad files with parts of their messages; configs/ against the defaults.

#include "actors/app/config_bind.hpp"
#include "actors/app/config_keys.hpp"
#include "actors/app/config_loader.hpp"
#include "tests/actors/app/temporary_folder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace troupe::app {
namespace {

const std::string kConfigs = std::string(TROUPE_SOURCE_DIR) + "/configs/";

TEST(SystemConfig, NothingGivenIsTheDefaults) {
  const ConfigOutcome none = load_system_config("");
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none.config, SystemConfig());
  EXPECT_TRUE(none.given.empty());
  const ConfigOutcome empty = parse_system_config("", "x.toml");
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty.config, SystemConfig());
  ASSERT_EQ(none.config.ranks.size(), 2U);
  EXPECT_EQ(none.config.ranks[0].name, "prefill");
  EXPECT_EQ(none.config.ranks[1].role, sched::Role::decode);
}

TEST(SystemConfig, LocalTomlSpellsOutTheDefaults) {
  ConfigOutcome local = load_system_config(kConfigs + "local.toml");
  ASSERT_TRUE(local.ok()) << error_lines(local.errors);
  EXPECT_NE(local.config.model.path.find("examples/models/nano-v4.1"), std::string::npos);
  local.config.model.path.clear();
  EXPECT_EQ(local.config, SystemConfig());
}

/// Collects the keys of the list with what their comment in local.toml must say.
class RangeCollector {
public:
  void table(const char* name) { prefix_ = std::string(name) + "."; }
  void enter(const std::string& prefix) { prefix_ = prefix; }
  void text(const char* key, const std::string&) { add(key, {}); }
  void path(const char* key, const std::string&) { add(key, {}); }
  void boolean(const char* key, bool) { add(key, {}); }
  void choice(const char* key, const std::string&, std::initializer_list<const char*> allowed) {
    std::vector<std::string> parts;
    for (const char* word : allowed) {
      parts.push_back('"' + std::string(word) + '"');
    }
    add(key, parts);
  }
  template <class Enum, class Names>
  void names(const char* key, Enum, const Names& all) {
    std::vector<std::string> parts;
    for (const auto& [name, entry] : all) {
      parts.push_back('"' + std::string(name) + '"');
    }
    add(key, parts);
  }
  void integer(const char* key, std::int64_t, IntegerRange range) {
    if (prefix_ == "cost_model.") {
      return add(key, {});
    } // One range for the table.
    add(key, {fmt::format("{} to {}", range.lowest, range.highest)});
  }
  void size(const char* key, std::int64_t, IntegerRange range) {
    add(key, {size_text(range.lowest) + " to " + size_text(range.highest)});
  }
  void real(const char* key, double, RealRange range) {
    add(key, {fmt::format("{} to {}", range.lowest, range.highest)});
  }
  void real_or_model(const char* key, const std::optional<double>&, RealRange range) {
    add(key, {fmt::format("{} to {}", range.lowest, range.highest), "\"model\""});
  }

  std::vector<std::pair<std::string, std::vector<std::string>>> keys;

private:
  void add(const char* key, std::vector<std::string> parts) {
    keys.emplace_back(prefix_ + key, std::move(parts));
  }
  std::string prefix_;
};

TEST(SystemConfig, LocalTomlHasEveryKeyWithItsRange) {
  RangeCollector collector;
  SystemConfig config;
  visit_tables(config, collector);
  collector.enter("rank.prefill.");
  visit_rank(config.ranks[0], collector);
  const ConfigOutcome local = load_system_config(kConfigs + "local.toml");
  std::ifstream file(kConfigs + "local.toml");
  std::string line;
  std::string prefix;
  std::map<std::string, std::string> lines;
  while (std::getline(file, line)) {
    if (line.rfind("[[rank]]", 0) == 0) {
      prefix = prefix == "kv." ? "rank.prefill." : "rank.decode.";
    } else if (line.rfind('[', 0) == 0) {
      prefix = line.substr(1, line.find(']') - 1) + ".";
    } else if (line.find(" = ") != std::string::npos && line[0] != '#') {
      lines[prefix + line.substr(0, line.find(" = "))] = line;
    }
  }
  EXPECT_GT(collector.keys.size(), 45U);
  for (const auto& [key, parts] : collector.keys) {
    EXPECT_TRUE(local.given.contains(key)) << key;
    for (const std::string& part : parts) {
      EXPECT_NE(lines[key].find(part), std::string::npos) << key << " lacks " << part;
    }
  }
}

TEST(SystemConfig, OtherFilesOfConfigsAreValid) {
  const ConfigOutcome throughput = load_system_config(kConfigs + "throughput.toml");
  ASSERT_TRUE(throughput.ok()) << error_lines(throughput.errors);
  for (const RankGroupConfig& group : throughput.config.ranks) {
    EXPECT_EQ(group.role, sched::Role::both);
  }
}

struct BadFile {
  std::string name;
  std::string text;
  std::vector<std::string> parts; ///< All of them stand in one message.
};

class BadFiles : public testing::TestWithParam<BadFile> {};

TEST_P(BadFiles, AreRefusedWithOneClearMessage) {
  const ConfigOutcome outcome = parse_system_config(GetParam().text, "dir/my.toml");
  ASSERT_EQ(outcome.errors.size(), 1U) << error_lines(outcome.errors);
  const std::string message = outcome.errors[0].text();
  for (const std::string& part : GetParam().parts) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
  }
  EXPECT_EQ(outcome.config, SystemConfig()) << "all or nothing";
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadFiles,
    testing::Values(
        BadFile{"no_toml", "[cluster\nname = 1", {"dir/my.toml:1", "no TOML"}},
        BadFile{"no_value", "[kv]\nmemory =\n", {"dir/my.toml:2", "no TOML"}},
        BadFile{"key_twice", "[kv]\nmemory = 1\nmemory = 2\n", {"dir/my.toml:3", "no TOML"}},
        BadFile{"broken_utf8", "[cluster]\nname = \"\xFF\"", {"dir/my.toml", "no TOML"}},
        BadFile{"json", "{\"kv\": 1}", {"dir/my.toml:1", "no TOML"}},
        BadFile{
            "unknown_key",
            "\n[limits]\ninflightmax = 1\n",
            {"dir/my.toml:3: limits.inflightmax: unknown key", "did you mean \"inflight_max\""}},
        BadFile{"far_key", "[log]\nqwertyuiop = 1\n", {"log.qwertyuiop", "valid here: level"}},
        BadFile{
            "unknown_table", "[limit]\n", {"dir/my.toml:1: limit: unknown table", "\"limits\""}},
        BadFile{"table_of_a_later_build", "[targets]\nttft_ms = 0\n", {"targets: unknown table"}},
        BadFile{"devices_of_two_kinds",
                "[[rank]]\nname = \"a\"\n[[rank]]\nname = \"b\"\ndevice = \"null\"\n",
                {"rank.b.device", "\"null\" beside \"cpu\" of a", "one kind of device"}},
        BadFile{"key_outside", "seed = 1\n", {"dir/my.toml:1: seed", "outside of all tables"}},
        BadFile{"table_is_a_value", "kv = 3\n", {"kv: found the integer 3", "a table [kv]"}},
        BadFile{"text_for_integer",
                "[limits]\ninflight_max = \"many\"\n",
                {"limits.inflight_max: found the text \"many\"", "an integer from 1 to 1000000"}},
        BadFile{"real_for_integer",
                "[limits]\nattempts_max = 1.5\n",
                {"limits.attempts_max: found the number 1.5", "an integer from 1 to 1000"}},
        BadFile{"integer_for_text",
                "[cluster]\nname = 5\n",
                {"cluster.name: found the integer 5", "a text"}},
        BadFile{"text_for_boolean",
                "[sampling]\nthinking = \"yes\"\n",
                {"sampling.thinking: found the text \"yes\"", "true or false"}},
        BadFile{"too_small",
                "[limits]\nsequences_max = 0\n",
                {"found the integer 0", "from 1 to 65536"}},
        BadFile{"too_large",
                "[limits]\nlease_ms = 3600001\n",
                {"found the integer 3600001", "from 100 to 3600000"}},
        BadFile{"negative_seed", "[cluster]\nseed = -1\n", {"cluster.seed", "from 0 to"}},
        BadFile{"date", "[limits]\nlease_ms = 2020-01-01\n", {"found a date or time"}},
        BadFile{"array", "[limits]\nlease_ms = [1]\n", {"found an array"}},
        BadFile{"size_unit",
                "[kv]\nmemory = \"512 Mb\"\n",
                {"kv.memory: found the text \"512 Mb\"", "KiB MiB GiB TiB"}},
        BadFile{"size_text", "[kv]\nmemory = \"lots\"\n", {"kv.memory", "expected a size"}},
        BadFile{"size_negative", "[kv]\nmemory = -1\n", {"found the integer -1", "64KiB"}},
        BadFile{"size_fraction", "[kv]\nmemory = \"1.5GiB\"\n", {"found the text \"1.5GiB\""}},
        BadFile{"size_overflow", "[kv]\nmemory = \"99999999TiB\"\n", {"99999999TiB"}},
        BadFile{"line_too_large", "[limits]\nline_bytes_max = \"2GiB\"\n", {"1KiB to 1GiB"}},
        BadFile{"choice",
                "[model]\nactivation_quant = \"of\"\n",
                {"found the text \"of\"", "\"checkpoint\", \"off\""}},
        BadFile{"temperature",
                "[sampling]\ntemperature = 2.5\n",
                {"found the number 2.5", "from 0 to 2 or \"model\""}},
        BadFile{"temperature_nan", "[sampling]\ntemperature = nan\n", {"from 0 to 2"}},
        BadFile{
            "temperature_text", "[sampling]\ntemperature = \"hot\"\n", {"\"hot\"", "\"model\""}},
        BadFile{"top_p_zero", "[sampling]\ntop_p = 0\n", {"sampling.top_p"}},
        BadFile{"device_cuda",
                "[[rank]]\ndevice = \"cuda:0\"\n",
                {"rank.both.device: found the text \"cuda:0\"", "this build has no CUDA"}},
        BadFile{"role",
                "[[rank]]\nname = \"a\"\nrole = \"prefil\"\n",
                {"dir/my.toml:3: rank.a.role", "\"prefill\", \"decode\", \"both\""}},
        BadFile{"rank_is_a_table", "[rank]\nname = \"a\"\n", {"rank: found a table", "[[rank]]"}},
        BadFile{"rank_key",
                "[[rank]]\nname = \"a\"\nthread = 2\n",
                {"rank.a.thread: unknown key", "\"threads\""}},
        BadFile{"rank_twice",
                "[[rank]]\nrole = \"both\"\n[[rank]]\nrole = \"both\"\n",
                {"dir/my.toml:3", "a second group \"both\""}},
        BadFile{"rank_name", "[[rank]]\nname = \"a.b\"\n", {"\"a.b\"", "letters, digits"}},
        BadFile{"rank_count",
                "[[rank]]\nname = \"a\"\ncount = 0\n",
                {"rank.a.count: found the integer 0"}},
        BadFile{"no_load",
                "[cost_model]\nsequence = 0\ncontext_token = 0\n",
                {"dir/my.toml:1: cost_model", "a balancer would see no load"}},
        BadFile{"no_load_of_a_group",
                "[cost_model]\nsequence = 0\n[[rank]]\nname = \"a\"\n[rank.cost_model]\n"
                "context_token = 0\n",
                {"rank.a.cost_model", "a balancer would see no load"}},
        BadFile{"group_cost_key",
                "[[rank]]\nname = \"a\"\n[rank.cost_model]\nsteps = 0\n",
                {"rank.a.cost_model.steps: unknown key", "\"step\""}}),
    [](const auto& tested) { return tested.param.name; });

TEST(SystemConfig, EveryErrorIsReportedInOrder) {
  const ConfigOutcome outcome =
      parse_system_config("[log]\nlevel = 1\n[kv]\nmemori = 1\n[limits]\nlease_ms = 1\n", "f");
  ASSERT_EQ(outcome.errors.size(), 3U);
  EXPECT_EQ(outcome.errors[0].line, 2);
  EXPECT_EQ(outcome.errors[1].line, 4);
  EXPECT_EQ(outcome.errors[2].line, 6);
}

TEST(SystemConfig, FilesThatCannotBeReadSaySo) {
  const TemporaryFolder folder;
  EXPECT_NE(error_lines(load_system_config(folder.path("no.toml")).errors).find("cannot be opened"),
            std::string::npos);
  EXPECT_NE(error_lines(load_system_config(folder.path("")).errors).find("is a folder"),
            std::string::npos);
  const std::string large = folder.write("large.toml", std::string(5 << 20, '#'));
  EXPECT_NE(error_lines(load_system_config(large).errors).find("at most 4194304"),
            std::string::npos);
}

TEST(SystemConfig, PathsAreRelativeToTheirFile) {
  const TemporaryFolder folder;
  const std::string file = folder.write("a.toml", "[model]\npath = \"../m\"\n");
  const ConfigOutcome from_file = load_system_config(file);
  ASSERT_TRUE(from_file.ok());
  EXPECT_EQ(from_file.config.model.path,
            (std::filesystem::path(folder.path("")).parent_path().parent_path() / "m").string());
  const ConfigOutcome from_flag = load_system_config(file, {"model.path=m"});
  EXPECT_EQ(from_flag.config.model.path, (std::filesystem::current_path() / "m").string());
}

TEST(Overrides, WinOverTheFile) {
  const ConfigOutcome outcome = parse_system_config(
      "[limits]\ninflight_max = 5\n[[rank]]\nname = \"a\"\nrole = \"both\"\n", "f",
      {"limits.inflight_max=7", "rank.a.count = 3", "rank.a.cost_model.step=1", "kv.memory=1MiB",
       "kv.memory = \"2MiB\"", "model.cpu_path=scalar", "sampling.temperature=0.5"});
  ASSERT_TRUE(outcome.ok()) << error_lines(outcome.errors);
  EXPECT_EQ(outcome.config.limits.inflight_max, 7);
  EXPECT_EQ(outcome.config.ranks[0].count, 3);
  EXPECT_EQ(outcome.config.ranks[0].cost_model.model.step_ps, 1);
  EXPECT_EQ(outcome.config.cost_model.model.step_ps, 2'000'000'000);
  EXPECT_EQ(outcome.config.kv.memory_bytes, 2 << 20);
  EXPECT_EQ(outcome.config.model.cpu_path, "scalar");
  EXPECT_EQ(outcome.config.sampling.temperature, 0.5);
  EXPECT_TRUE(outcome.given.contains("rank.a.count"));
}

TEST(Overrides, KeysAreReadAsTomlReadsThem) {
  for (const char* text : {"\"limits\".requests_max=5", "'limits'.\"requests_max\" = 5",
                           "limits . requests_max=5", "limits.\"requests\\u005fmax\"=5"}) {
    const ConfigOutcome outcome = load_system_config("", {text});
    ASSERT_TRUE(outcome.ok()) << text << ": " << error_lines(outcome.errors);
    EXPECT_EQ(outcome.config.limits.requests_max, 5) << text;
  }
  const ConfigOutcome group = load_system_config("", {"rank.\"prefill\".count=3"});
  ASSERT_TRUE(group.ok()) << error_lines(group.errors);
  EXPECT_EQ(group.config.ranks[0].count, 3);
}

TEST(KeyPlaces, PutFileAndLineBeforeALaterError) {
  const ConfigOutcome outcome =
      parse_system_config("[kv]\n\nmemory = \"1MiB\"\n", "f.toml", {"model.context_max=7"});
  ASSERT_TRUE(outcome.ok()) << error_lines(outcome.errors);
  const auto placed = [&](const std::string& message) {
    return outcome.places.placed({ErrorCode::bad_argument, message}).message;
  };
  EXPECT_EQ(placed("kv.memory: too little"), "f.toml:3: kv.memory: too little");
  EXPECT_EQ(placed("model.context_max: too much"), "--set: model.context_max: too much");
  EXPECT_EQ(placed("kv.block_tokens: a default"), "kv.block_tokens: a default");
  EXPECT_EQ(placed("kv.memory is something else"), "kv.memory is something else");
}

TEST(Overrides, ReachTheDefaultGroups) {
  const ConfigOutcome outcome = load_system_config("", {"rank.prefill.count=2"});
  ASSERT_TRUE(outcome.ok()) << error_lines(outcome.errors);
  ASSERT_EQ(outcome.config.ranks.size(), 2U);
  EXPECT_EQ(outcome.config.ranks[0].count, 2);
  EXPECT_EQ(outcome.config.ranks[1].count, 1);
  EXPECT_EQ(outcome.config.ranks[1].role, sched::Role::decode);
}

TEST(Overrides, AreRefusedLikeTheFile) {
  const auto refusal = [](const std::string& text) {
    return error_lines(load_system_config("", {text}).errors);
  };
  EXPECT_NE(refusal("limits").find("expected table.key=VALUE"), std::string::npos);
  EXPECT_NE(refusal("seed=1").find("expected table.key=VALUE"), std::string::npos);
  EXPECT_NE(refusal("limits.=1").find("expected table.key=VALUE"), std::string::npos);
  EXPECT_EQ(
      refusal("limits.lease_ms=x"),
      "--set: limits.lease_ms: found the text \"x\", expected an integer from 100 to 3600000");
  EXPECT_NE(refusal("limits.leas_ms=1").find("\"lease_ms\""), std::string::npos);
  EXPECT_NE(refusal("rank.prefil.count=1").find("did you mean \"prefill\""), std::string::npos);
  EXPECT_NE(refusal("rank.count=1").find("no group"), std::string::npos);
  EXPECT_NE(refusal("kv.memory.x=1").find("kv.memory: found a table"), std::string::npos);
  // A value cannot bring other keys in: text that is more than one value is a text.
  const ConfigOutcome outcome = load_system_config("", {"cluster.name=1\n[kv]\nmemory=65536"});
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome.config.kv, KvConfig());
}

TEST(ConfigShow, LoadsToTheSame) {
  const ConfigOutcome first = parse_system_config(
      "[sampling]\ntop_p = 0.95\ntemperature = 1\n[kv]\nmemory = 1000000\n[[rank]]\nname = \"x\"\n"
      "device = \"null\"\n[rank.cost_model]\nstep = 5\nnull_speed = 0.1\n[[rank]]\nname = \"y\"\n"
      "device = \"null\"\n"
      "[policies]\nfile = \"p.toml\"\n[journal]\nsync = \"line\"\n",
      "/some/where.toml");
  ASSERT_TRUE(first.ok()) << error_lines(first.errors);
  const std::string shown = show_system_config(first.config, first.given);
  const ConfigOutcome second = parse_system_config(shown, "/else/where.toml");
  ASSERT_TRUE(second.ok()) << error_lines(second.errors) << shown;
  EXPECT_EQ(second.config, first.config) << shown;
  const ConfigOutcome defaults = parse_system_config(show_system_config({}, {}), "f");
  EXPECT_EQ(defaults.config, SystemConfig());
}

TEST(ConfigShow, MarksEachDefault) {
  const ConfigOutcome outcome = parse_system_config("[limits]\nlease_ms = 10000\n", "f");
  const std::string shown = show_system_config(outcome.config, outcome.given);
  for (const std::string& line : lines_of(shown)) {
    if (line.find(" = ") == std::string::npos) {
      continue;
    }
    const bool is_marked = line.find("# default") != std::string::npos;
    EXPECT_EQ(is_marked, line.rfind("lease_ms", 0) != 0) << line;
  }
  const auto json = nlohmann::json::parse(show_system_config_json(outcome.config, outcome.given));
  EXPECT_EQ(json["config"]["limits"]["lease_ms"], 10000);
  EXPECT_EQ(json["config"]["rank"][0]["role"], "prefill");
  EXPECT_EQ(json["given"], nlohmann::json({"limits.lease_ms"}));
}

TEST(Size, TakesUnitsOfBothKinds) {
  std::int64_t bytes = 0;
  EXPECT_TRUE(parse_size("512MiB", bytes));
  EXPECT_EQ(bytes, 512LL << 20);
  EXPECT_TRUE(parse_size("1 GB", bytes));
  EXPECT_EQ(bytes, 1'000'000'000);
  EXPECT_TRUE(parse_size("7", bytes));
  EXPECT_EQ(bytes, 7);
  EXPECT_TRUE(parse_size("7B", bytes));
  for (const char* bad : {"", "MiB", "-1", "1 mib", "1.5KiB", "1KiBx", "9223372036854775807KiB"}) {
    EXPECT_FALSE(parse_size(bad, bytes)) << bad;
  }
  EXPECT_EQ(size_text(512LL << 20), "512MiB");
  EXPECT_EQ(size_text(1000), "1000B");
  EXPECT_EQ(size_text(0), "0B");
}

class PolicyFile : public testing::Test {
protected:
  PolicyFile() { sched::register_builtin_policies(registry_); }
  std::string refusal(const std::string& text) {
    const PolicyOutcome outcome = parse_policy_file(text, "p.toml", registry_);
    EXPECT_FALSE(outcome.ok());
    EXPECT_TRUE(outcome.set.kinds.empty());
    return error_lines(outcome.errors);
  }
  sched::PolicyRegistry registry_;
};

TEST_F(PolicyFile, DefaultTomlNamesEveryKindWithItsDefault) {
  const PolicyOutcome outcome = load_policy_file(kConfigs + "policies/default.toml", registry_);
  ASSERT_TRUE(outcome.ok()) << error_lines(outcome.errors);
  EXPECT_EQ(outcome.set.name, "default");
  for (const std::string& kind : registry_.kinds()) {
    ASSERT_TRUE(outcome.set.kinds.contains(kind)) << kind;
    EXPECT_EQ(outcome.set.kinds.at(kind).policy, registry_.default_name(kind));
  }
}

TEST_F(PolicyFile, KeepsOptionsWithTheirPlace) {
  const PolicyOutcome outcome = parse_policy_file(
      "name = \"mine\"\n[prefill_chunker]\npolicy = \"fixed\"\nbudget_tokens = 64\n", "p.toml",
      registry_);
  ASSERT_TRUE(outcome.ok()) << error_lines(outcome.errors);
  EXPECT_EQ(outcome.set.name, "mine");
  ASSERT_EQ(outcome.set.kinds.size(), 1U);
  const sched::PolicySpec& spec = outcome.set.kinds.at("prefill_chunker");
  EXPECT_EQ(spec.policy, "fixed");
  ASSERT_EQ(spec.options.values().size(), 1U);
  EXPECT_EQ(spec.options.values().at("budget_tokens").where, "p.toml:4");
  EXPECT_TRUE(registry_.check(outcome.set).ok());
}

TEST_F(PolicyFile, TakesWeightsAndAWaitBoundOfTheQueue) {
  const PolicyOutcome outcome = parse_policy_file(
      "name = \"fair\"\n[queue]\npolicy = \"weighted_fair\"\nweights = { a = 2, \"b.c\" = 0.5 }\n"
      "[queue.wait_bound]\nmax_us = 2000000\n",
      "p.toml", registry_);
  ASSERT_TRUE(outcome.ok()) << error_lines(outcome.errors);
  const auto& values = outcome.set.kinds.at("queue").options.values();
  EXPECT_EQ(values.count("weights.a"), 1U);
  EXPECT_EQ(values.count("weights.b.c"), 1U);
  EXPECT_EQ(values.count("wait_bound.max_us"), 1U);
}

TEST_F(PolicyFile, ComposesARouterFromParts) {
  const std::string text = "name = \"n\"\n[prefill_router]\npolicy = \"scored\"\n"
                           "filters = [\"alive\", \"has_room\"]\npick = \"two_choices\"\n"
                           "[[prefill_router.score]]\nby = \"least_work\"\nweight = 1.0\n"
                           "[[prefill_router.score]]\nby = \"session\"\nweight = 0.5\n";
  const PolicyOutcome outcome = parse_policy_file(text, "p.toml", registry_);
  ASSERT_TRUE(outcome.ok()) << error_lines(outcome.errors);
  const auto& options = outcome.set.kinds.at("prefill_router").options.values();
  EXPECT_EQ(options.size(), 7U);
  EXPECT_EQ(std::get<std::string>(options.at("filters[1]").value), "has_room");
  EXPECT_EQ(std::get<std::string>(options.at("score[1].by").value), "session");
  EXPECT_EQ(options.at("score[1].by").where, "p.toml:10");
  std::string wrong = text;
  wrong.replace(wrong.find("session"), 7, "sesion");
  const std::string message = refusal(wrong);
  EXPECT_EQ(message.rfind("p.toml:10: prefill_router.score[1].by: found \"sesion\"", 0), 0U)
      << message;
}

TEST_F(PolicyFile, AKindWithoutNameUsesItsDefault) {
  const PolicyOutcome outcome =
      parse_policy_file("name = \"n\"\n[prefill_chunker]\nbudget_us = 5\n", "p.toml", registry_);
  ASSERT_TRUE(outcome.ok()) << error_lines(outcome.errors);
  EXPECT_EQ(outcome.set.kinds.at("prefill_chunker").policy, "time_budget");
}

TEST_F(PolicyFile, R5_RefusesWithPlaceAndNearestName) {
  EXPECT_NE(refusal("").find("name: it is missing"), std::string::npos);
  EXPECT_NE(refusal("name = \"\"").find("not empty"), std::string::npos);
  EXPECT_NE(refusal("name = 1").find("p.toml:1: name: found the integer 1"), std::string::npos);
  EXPECT_NE(refusal("name = \"n\"\n[queu]\n").find("p.toml:2: queu: unknown kind"),
            std::string::npos);
  EXPECT_NE(refusal("name = \"n\"\n[queu]\n").find("\"queue\""), std::string::npos);
  EXPECT_NE(
      refusal("name = \"n\"\n[retention]\npolicy = \"lru\"").find("no part of this version asks"),
      std::string::npos);
  EXPECT_NE(refusal("name = \"n\"\n[queue]\npolicy = \"fcf\"").find("\"fcfs\""), std::string::npos);
  EXPECT_NE(refusal("name = \"n\"\n[queue]\npolicy = 3").find("p.toml:3: queue.policy: found"),
            std::string::npos);
  EXPECT_NE(refusal("name = \"n\"\nqueue = \"fcfs\"").find("a table [queue]"), std::string::npos);
  const std::string unknown =
      refusal("name = \"n\"\n[prefill_chunker]\npolicy = \"fixed\"\nbudget_token = 3\n");
  EXPECT_EQ(unknown.rfind("p.toml:4: prefill_chunker.budget_token: ", 0), 0U) << unknown;
  EXPECT_NE(unknown.find("budget_tokens"), std::string::npos);
  const std::string range =
      refusal("name = \"n\"\n[prefill_chunker]\npolicy = \"time_budget\"\nbudget_us = 0\n");
  EXPECT_EQ(range.rfind("p.toml:4: prefill_chunker.budget_us: ", 0), 0U) << range;
  EXPECT_NE(refusal("name = \"n\"\n[queue]\npolicy = \"fcfs\"\n[queue.wait_bound]\nmax_us = 0\n")
                .find("p.toml:5: queue.wait_bound.max_us: found 0, expected"),
            std::string::npos);
  EXPECT_NE(refusal("name = \"n\"\n[queue]\npolicy = \"fcfs\"\nweights = { a = 2 }\n")
                .find("p.toml:4: queue.weights.a: unknown key"),
            std::string::npos);
  EXPECT_NE(
      refusal("name = \"n\"\n[queue]\npolicy = \"weighted_fair\"\nweights = { a = \"x\" }\n")
          .find("p.toml:4: queue.weights.a: found \"x\", expected a number from 0.001 to 1000"),
      std::string::npos);
  EXPECT_NE(refusal("name = \"n\"\n[queue]\npolicy = \"fcfs\"\nx = [1]\n")
                .find("p.toml:4: queue.x[0]: unknown key"),
            std::string::npos);
  EXPECT_NE(refusal("name = \"n\"\n[queue]\npolicy = \"fcfs\"\nx = []\n").find("an empty list"),
            std::string::npos);
}

} // namespace
} // namespace troupe::app
