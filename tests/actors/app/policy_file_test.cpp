// Goal: a policy file gives the set that it spells out, or one message a cause with file, line and
// key; a set can be written as a file again, and two sets compared.
// Method: texts with parts of their messages; the files of configs/policies; a library source that
// knows one library by heart.

#include "actors/app/config_loader.hpp"
#include "actors/app/derived_set.hpp"
#include "actors/app/policy_text.hpp"
#include "tests/actors/app/temporary_folder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

namespace troupe::app {
namespace {

const std::string kPolicies = std::string(TROUPE_SOURCE_DIR) + "/configs/policies/";
const std::string kNamed = "name = \"n\"\n";

/// One library "good.so" with a router "mine"; "bad.so" cannot be loaded.
class KnownLibraries final : public sched::LibrarySource {
public:
  explicit KnownLibraries(const sched::PolicyRegistry& registry) : registry_(registry) {}

  Result<sched::PolicyFactory> find(const sched::LibrarySpec& library, const std::string& kind,
                                    const std::string& name) override {
    if (library.path.ends_with("bad.so")) {
      return Error{ErrorCode::bad_argument, library.path + ": it is no library of policies"};
    }
    if (kind != "prefill_router" || name != "mine") return sched::PolicyFactory{};
    const sched::PolicyRegistry& registry = registry_;
    return sched::PolicyFactory([&registry](OptionTable options) {
      sched::PolicySpec spec{"random", OptionTable("prefill_router")};
      static_cast<void>(options.integer("depth", 1, 1, 9));
      if (Status good = options.finish(); !good.ok()) {
        return Result<std::unique_ptr<sched::Policy>>(good.error());
      }
      return registry.build("prefill_router", spec, {});
    });
  }
  std::set<std::string> names(const sched::LibrarySpec& library, const std::string& kind) override {
    const bool has = library.path.ends_with("good.so") && kind == "prefill_router";
    return has ? std::set<std::string>{"mine"} : std::set<std::string>{};
  }
  std::string version(const sched::LibrarySpec&) override { return "1.2"; }

private:
  const sched::PolicyRegistry& registry_;
};

class PolicySetFile : public testing::Test {
protected:
  PolicySetFile() { sched::register_builtin_policies(registry_); }

  sched::PolicySet read(const std::string& text, const std::string& name = "p.toml") {
    PolicyOutcome outcome = parse_policy_file(text, name, registry_);
    EXPECT_TRUE(outcome.ok()) << error_lines(outcome.errors);
    return std::move(outcome.set);
  }
  sched::PolicySet load(const std::string& name) {
    PolicyOutcome outcome = load_policy_file(kPolicies + name, registry_);
    EXPECT_TRUE(outcome.ok()) << error_lines(outcome.errors);
    return std::move(outcome.set);
  }
  std::string refusal(const std::string& text, const std::string& name = "p.toml") {
    const PolicyOutcome outcome = parse_policy_file(text, name, registry_);
    EXPECT_EQ(outcome.errors.size(), 1U) << error_lines(outcome.errors);
    EXPECT_TRUE(outcome.set.kinds.empty() && outcome.set.text.empty()) << "all or nothing";
    return error_lines(outcome.errors);
  }
  void expect_refusal(const std::string& text, const std::string& begin, const std::string& part) {
    const std::string message = refusal(text);
    EXPECT_EQ(message.rfind(begin, 0), 0U) << message;
    EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
  }
  std::string rows_text(const sched::PolicySet& set) {
    std::string out;
    for (const auto& [key, value] : policy_rows(set, registry_))
      out += fmt::format("{} = {}\n", key, value);
    return out;
  }

  sched::PolicyRegistry registry_;
};

TEST_F(PolicySetFile, DefaultTomlSpellsOutTheCompiledInSet) {
  const sched::PolicySet set = load("default.toml");
  EXPECT_EQ(rows_text(set), rows_text(sched::PolicySet{}));
  for (const std::string& kind : registry_.kinds()) {
    const auto defaults = registry_.option_defaults(kind, registry_.default_name(kind));
    for (const auto& [key, value] : defaults)
      EXPECT_TRUE(set.kinds.at(kind).options.values().contains(key)) << kind << "." << key;
  }
}

TEST_F(PolicySetFile, EveryFileOfConfigsIsValidAndIsNoDefault) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kPolicies)) {
    const std::string name = entry.path().filename().string();
    const sched::PolicySet set = load(name);
    EXPECT_EQ(set.name + ".toml", name);
    EXPECT_TRUE(registry_.check(set).ok()) << name;
    EXPECT_EQ(policy_differences({}, set, registry_).empty(), name == "default.toml") << name;
    ++files;
  }
  EXPECT_GE(files, 5);
}

TEST_F(PolicySetFile, ReadsProbationShadowAndCanary) {
  const sched::PolicySet set = load("experiment.toml");
  EXPECT_EQ(set.probation.window_us, 60'000'000);
  EXPECT_EQ(set.probation.requests_min, 100);
  EXPECT_EQ(set.probation.ttft_p95_permille, 1500);
  EXPECT_EQ(set.shadow.at("decode_balancer").policy, "least_count");
  EXPECT_EQ(set.shadow.at("queue").policy, "sjf");
  EXPECT_EQ(set.canary_permille, 50);
  EXPECT_EQ(set.canary.at("prefill_router").policy, "two_choices");
  EXPECT_TRUE(set.kinds.empty());
  const sched::PolicySet ratios =
      read(kNamed + "[probation]\nwindow_s = 0\nttft_p95_ratio = 1.25\ngoodput_ratio = 1\n");
  EXPECT_EQ(ratios.probation.window_us, 0);
  EXPECT_EQ(ratios.probation.ttft_p95_permille, 1250);
  EXPECT_EQ(ratios.probation.goodput_permille, 1000);
}

TEST_F(PolicySetFile, KeepsItsTextAndName) {
  const std::string text = kNamed + "# a word\n[queue]\npolicy = \"sjf\"\n";
  const sched::PolicySet set = read(text, "dir/p.toml");
  EXPECT_EQ(set.text, text);
  EXPECT_EQ(set.file, "dir/p.toml");
}

TEST_F(PolicySetFile, RefusesTablesOfAWrongForm) {
  expect_refusal(kNamed + "[admission]\npolcy = \"by_cost\"\n",
                 "p.toml:3: admission.polcy: unknown key", "\"policy\"");
  expect_refusal(kNamed + "[shadow.queue]\npolici = \"sjf\"\n",
                 "p.toml:3: shadow.queue.polici: unknown key", "\"policy\"");
  expect_refusal(kNamed + "[probation]\nwindow = 3\n", "p.toml:3: probation.window: unknown key",
                 "\"window_s\"");
  expect_refusal(kNamed + "[probation]\nttft_p95_ratio = -1\n",
                 "p.toml:3: probation.ttft_p95_ratio: found -1", "from 0 to 1000");
  expect_refusal(kNamed + "[probation]\nrequests_min = 0\n", "p.toml:3: probation.requests_min",
                 "from 1 to");
  expect_refusal(kNamed + "[[probation]]\n", "p.toml:2: probation: found an array", "[probation]");
  expect_refusal(kNamed + "shadow = 1\n", "p.toml:2: shadow: found the integer 1", "[shadow.KIND]");
  expect_refusal(kNamed + "[shadow.queu]\n", "p.toml:2: shadow.queu: unknown kind", "\"queue\"");
  expect_refusal(kNamed + "[shadow.queue]\npolicy = \"fcf\"\n",
                 "p.toml:3: shadow.queue.policy: found", "\"fcfs\"");
  expect_refusal(kNamed + "[shadow.decode_balancer]\npolicy = \"least_kv\"\nheadrom = 0.1\n",
                 "p.toml:4: shadow.decode_balancer.headrom: unknown key", "\"headroom\"");
  expect_refusal(kNamed + "[shadow]\nqueue = \"sjf\"\n", "p.toml:3: shadow.queue: found the text",
                 "a table [shadow.queue]");
  expect_refusal(kNamed + "[canary.handoff]\npolicy = \"paced\"\n", "p.toml:2: canary.share",
                 "it is missing");
  expect_refusal(kNamed + "[canary]\nshare = 2\n[canary.handoff]\npolicy = \"paced\"\n",
                 "p.toml:3: canary.share: found 2", "from 0.001 to 1");
  expect_refusal(kNamed + "[canary]\nshare = 0.5\n", "p.toml:2: canary: found a share and no kind",
                 "[canary.KIND]");
  expect_refusal(kNamed + "[canary]\nshare = 0.5\n[canary.queue]\npolicy = \"sjf\"\n",
                 "p.toml:4: canary.queue: this kind decides for many", "prefill_router");
  expect_refusal(kNamed + "[canary]\nshare = 0.5\nsteps = 1\n[canary.handoff]\n",
                 "p.toml:4: canary.steps: unknown kind", "valid here:");
  expect_refusal(kNamed + "[libary]\n", "p.toml:2: libary: unknown kind", "\"library\"");
}

TEST_F(PolicySetFile, RefusesPartsOfAWrongForm) {
  const std::string scored = kNamed + "[prefill_router]\npolicy = \"scored\"\n";
  expect_refusal(scored + "filters = \"alive\"\n",
                 "p.toml:4: prefill_router.filters: found \"alive\", expected a list",
                 "filters = [\"alive\", \"has_room\"]");
  expect_refusal(scored + "score = { by = \"least_work\" }\n",
                 "p.toml:4: prefill_router.score: found a table, expected a list", "weight = 1.0");
  expect_refusal(scored + "score = [\"least_work\"]\n",
                 "p.toml:4: prefill_router.score[0]: found \"least_work\", expected a table",
                 "by = ");
  expect_refusal(scored + "pick = [\"best\"]\n", "p.toml:4: prefill_router.pick: found a list",
                 "\"two_choices\"");
  expect_refusal(scored + "filters = [[\"alive\"]]\n",
                 "p.toml:4: prefill_router.filters[0]: found a list", "\"has_room\"");
  const std::string fair = kNamed + "[queue]\npolicy = \"weighted_fair\"\n";
  expect_refusal(fair + "weights = [1, 2]\n", "p.toml:4: queue.weights: found a list",
                 "a table of names and numbers, as in { a = 2 }");
  expect_refusal(fair + "weights = 3\n", "p.toml:4: queue.weights: found 3", "a table of names");
  expect_refusal(fair + "wait_bound = 3\n", "p.toml:4: queue.wait_bound: found 3",
                 "a table with the keys max_us");
}

TEST_F(PolicySetFile, RefusesLibrariesWhereNoneCanBeLoaded) {
  const TemporaryFolder folder;
  folder.write("good.so", "x");
  const std::string text = kNamed + "[[library]]\npath = \"good.so\"\n[prefill_router]\npolicy = "
                                    "\"mine\"\n";
  const std::string message = refusal(text, folder.path("p.toml"));
  EXPECT_NE(message.find("p.toml:3: library.path: "), std::string::npos) << message;
  EXPECT_NE(message.find("this program cannot load libraries"), std::string::npos) << message;
  sched::PolicySet built_in_only;
  built_in_only.libraries.push_back({folder.path("good.so"), "", true, 1000, 5000});
  EXPECT_FALSE(registry_.check(built_in_only).ok());
}

TEST_F(PolicySetFile, FindsPoliciesOfLibraries) {
  const TemporaryFolder folder;
  folder.write("good.so", "some bytes");
  folder.write("bad.so", "others");
  registry_.set_library_source(std::make_shared<KnownLibraries>(registry_));
  const std::string file = folder.path("p.toml");
  const std::string text = kNamed +
                           "[[library]]\npath = \"good.so\"\nisolation = \"none\"\n"
                           "decide_us = 5\n[prefill_router]\npolicy = \"mine\"\ndepth = 2\n";
  const sched::PolicySet set = read(text, file);
  ASSERT_EQ(set.libraries.size(), 1U);
  EXPECT_EQ(set.libraries[0].path, folder.path("good.so"));
  EXPECT_EQ(set.libraries[0].digest.size(), 32U);
  EXPECT_FALSE(set.libraries[0].lane);
  EXPECT_EQ(set.libraries[0].decide_us, 5);
  EXPECT_EQ(set.libraries[0].create_ms, 5000);
  EXPECT_EQ(rows_text(read(policy_set_text(set), file)), rows_text(set));
  const auto expect = [&](const std::string& wrong, const std::string& part) {
    const std::string message = refusal(wrong, file);
    EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
  };
  const std::string library = "[[library]]\npath = ";
  expect(kNamed + library + "\"bad.so\"\n[prefill_router]\npolicy = \"mine\"\n",
         "p.toml:3: library.path: " + folder.path("bad.so") + ": it is no library");
  expect(kNamed + library + "\"none.so\"\n", "p.toml:3: library.path: found no file");
  const auto expect_kind = [&](const std::string& path, const std::string& kind) {
    expect(kNamed + library + "\"" + path + "\"\n",
           "p.toml:3: library.path: " + kind + ", expected a shared object");
  };
  expect_kind("/dev/zero", "/dev/zero is a pipe, socket or device");
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  expect_kind("pipe", folder.path("pipe") + " is a pipe, socket or device");
  expect_kind("/usr", "/usr is a folder");
  std::filesystem::create_symlink("ring", folder.path("ring"));
  expect_kind("ring",
              folder.path("ring") + " cannot be opened (Too many levels of symbolic links)");
  expect(kNamed + library + "\"good.so\"\n" + library + "\"./good.so\"\n", "twice");
  folder.write("as_good.so", "another build");
  expect(kNamed + library + "\"good.so\"\n" + library + "\"as_good.so\"\n",
         "p.toml:4: library.path: found prefill_router policy \"mine\" in " +
             folder.path("good.so") + " and in " + folder.path("as_good.so"));
  expect(kNamed + "[[library]]\n", "p.toml:2: library.path: it is missing");
  expect(kNamed + "[library]\npath = \"good.so\"\n", "expected tables [[library]]");
  expect(kNamed + library + "\"good.so\"\nisolation = \"process\"\n",
         "p.toml:4: library.isolation: found \"process\", expected one of \"lane\", \"none\"");
  expect(kNamed + library + "\"good.so\"\n[prefill_router]\npolicy = \"mien\"\n", "\"mine\"");
  expect(kNamed + library + "\"good.so\"\n[prefill_router]\npolicy = \"mine\"\ndept = 2\n",
         "p.toml:6: prefill_router.dept: unknown key; did you mean \"depth\"?");
}

TEST_F(PolicySetFile, WrittenAsAFileItReadsAsTheSame) {
  std::vector<sched::PolicySet> sets = {sched::PolicySet{}};
  for (const char* name : {"default", "throughput", "latency", "fair_tenants", "experiment"})
    sets.push_back(load(std::string(name) + ".toml"));
  sets.push_back(read("name = \"odd \\\" \\u0001 \\u007f \xC3\xA4\"\n[queue]\npolicy = "
                      "\"weighted_fair\"\nweights = { \"a.b\" = 1, \"\" = 0.001, \"c\\\"d\" = 2 }\n"
                      "[canary]\nshare = 0.007\n[canary.decode_balancer]\nheadroom = 0.5\n"));
  for (const sched::PolicySet& set : sets) {
    const std::string text = policy_set_text(set);
    const sched::PolicySet again = read(text);
    EXPECT_EQ(rows_text(again), rows_text(set)) << text;
    EXPECT_EQ(policy_set_text(again), text);
  }
}

TEST_F(PolicySetFile, DifferencesNameKeysAndBothValues) {
  const sched::PolicySet before =
      read(kNamed + "[decode_balancer]\npolicy = \"least_kv\"\nheadroom = 0.1\n");
  const sched::PolicySet after = read(kNamed + "[shadow.queue]\npolicy = \"sjf\"\n");
  std::string shown;
  for (const auto& [key, a, b] : policy_differences(before, after, registry_))
    shown += fmt::format("{}: {} -> {}\n", key, a, b);
  EXPECT_EQ(shown, "decode_balancer.headroom: 0.1 -> 0.02\n"
                   "decode_balancer.policy: \"least_kv\" -> \"count_and_kv\"\n"
                   "shadow.queue.policy:  -> \"sjf\"\n");
  const sched::PolicySet written = read(kNamed + "[decode_balancer]\nheadroom = 0.020\n");
  EXPECT_EQ(policy_differences(read(kNamed), written, registry_).size(), 0U)
      << "a default that is written is no difference";
}

TEST_F(PolicySetFile, ShadowAndCanaryCanBeAddedAndTakenAway) {
  const sched::PolicySet live = load("latency.toml");
  const auto shadowed = with_shadow(live, "decode_balancer", "least_count", registry_);
  ASSERT_TRUE(shadowed.ok()) << shadowed.error().message;
  EXPECT_EQ(rows_text(read(shadowed->text)), rows_text(*shadowed));
  EXPECT_EQ(shadowed->shadow.at("decode_balancer").policy, "least_count");
  const auto canaried = with_canary(*shadowed, "handoff", "paced", 30, registry_);
  ASSERT_TRUE(canaried.ok()) << canaried.error().message;
  EXPECT_EQ(canaried->canary_permille, 30);
  const auto more = with_canary(*canaried, "prefill_router", "random", 0, registry_);
  ASSERT_TRUE(more.ok()) << "the share that is there holds";
  EXPECT_EQ(more->canary.size(), 2U);
  auto back = with_canary(*more, "prefill_router", "off", 0, registry_);
  back = with_canary(*back, "handoff", "off", 0, registry_);
  back = with_shadow(*back, "decode_balancer", "off", registry_);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(rows_text(*back), rows_text(live));
  EXPECT_EQ(back->canary_permille, 0);
}

TEST_F(PolicySetFile, ShadowAndCanaryThatCannotBeAreRefused) {
  const sched::PolicySet live;
  const auto shadow = [&](const char* kind, const char* policy) {
    return with_shadow(live, kind, policy, registry_).error().message;
  };
  const auto canary = [&](const char* kind, const char* policy, std::int64_t permille) {
    return with_canary(live, kind, policy, permille, registry_).error().message;
  };
  EXPECT_NE(shadow("queu", "sjf").find("did you mean \"queue\""), std::string::npos);
  EXPECT_NE(shadow("queue", "sfj").find("did you mean \"sjf\""), std::string::npos);
  EXPECT_NE(shadow("queue", "off").find("has no shadow of queue"), std::string::npos);
  EXPECT_NE(canary("queue", "sjf", 50).find("decides for many requests at once"),
            std::string::npos);
  EXPECT_NE(canary("handoff", "paced", 0).find("--share"), std::string::npos);
}

TEST_F(PolicySetFile, IsToldFromASystemFile) {
  const TemporaryFolder folder;
  EXPECT_TRUE(is_policy_file(kPolicies + "default.toml", registry_));
  EXPECT_TRUE(is_policy_file(folder.write("a.toml", "[qeue]\n[queue]\n"), registry_));
  EXPECT_TRUE(is_policy_file(folder.write("b.toml", kNamed), registry_));
  const std::string configs = std::string(TROUPE_SOURCE_DIR) + "/configs/";
  EXPECT_FALSE(is_policy_file(configs + "local.toml", registry_));
  EXPECT_FALSE(is_policy_file(configs + "sim/split.toml", registry_));
  EXPECT_FALSE(is_policy_file(folder.write("c.toml", "[kv]\n"), registry_));
  EXPECT_FALSE(is_policy_file(folder.write("d.toml", "no toml"), registry_));
  EXPECT_FALSE(is_policy_file(folder.path("absent"), registry_));
}

} // namespace
} // namespace troupe::app
