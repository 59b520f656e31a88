// Libraries as a registry's source: names, options, private copies, counting, unloading, digests.

#include "actors/plugin_lane.hpp"
#include "actors/plugin_loader.hpp"
#include "schedulers/plugin/plugin_policy.hpp"
#include "schedulers/policy/questions.hpp"
#include "tests/actors/plugin_files.hpp"
#include "tests/support/cluster_builder.hpp"
#include "tests/support/unsized_file.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <thread>

namespace troupe::actors {
namespace {

using sched::testing::ClusterBuilder;
using sched::testing::ContextBuilder;
using test::library;
using test::mapped_copies;
using test::plugin_path;

/// Looked at by the pre-flight's own tests.
PluginLoaderOptions without_preflight() {
  PluginLoaderOptions options;
  options.preflight = false;
  return options;
}

sched::PolicyRegistry registry_with(const std::shared_ptr<PluginLoader>& loader) {
  sched::PolicyRegistry registry;
  sched::register_builtin_policies(registry);
  registry.set_library_source(loader);
  return registry;
}

sched::PolicySet set_of(const std::string& kind, const std::string& policy,
                        const sched::LibrarySpec& spec) {
  sched::PolicySet set;
  set.kinds[kind].policy = policy;
  set.libraries = {spec};
  return set;
}

/// The rank that a balancer chooses of 4, 7 and 9.
std::uint32_t chosen(sched::Policy& policy) {
  ContextBuilder context;
  const auto ranks = ClusterBuilder().decode_rank(4).decode_rank(7).decode_rank(9).ranks();
  auto& balancer = dynamic_cast<sched::DecodeBalancer&>(policy);
  const auto decision =
      balancer.place({sched::testing::request(1, 10), {}, {}}, ranks, context.context());
  return decision.value ? raw(decision.value->rank) : UINT32_MAX;
}

class PluginLoaderTest : public ::testing::TestWithParam<bool> {
protected:
  test::TempFolder folder_;
  std::shared_ptr<PluginLoader> loader_ = std::make_shared<PluginLoader>(without_preflight());
  sched::PolicyRegistry registry_ = registry_with(loader_);
};

TEST_P(PluginLoaderTest, PoliciesOfALibraryAreBuiltLikeBuiltInOnes) {
  const auto spec = library(plugin_path("good_policies"), GetParam());
  for (const auto& [kind, name] : std::map<std::string, std::string>{{"queue", "newest"},
                                                                     {"prefill_router", "any_fit"},
                                                                     {"decode_balancer", "turns"},
                                                                     {"prefill_chunker", "one"},
                                                                     {"admission", "shorter_than"},
                                                                     {"handoff", "two"},
                                                                     {"step", "sequences_first"}}) {
    const Status status = registry_.check(set_of(kind, name, spec));
    EXPECT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(mapped_copies(), 0) << "nobody uses it after " << kind;
  }
  auto built = registry_.build("decode_balancer", set_of("decode_balancer", "first_fit", spec));
  ASSERT_TRUE(built.ok()) << built.error().message;
  EXPECT_EQ(chosen(**built), 4U);
  EXPECT_GT(mapped_copies(), 0);
  EXPECT_EQ(folder_.entries(), 0) << "the private copy leaves the disk once it is mapped";
}

TEST_P(PluginLoaderTest, DefaultsOfItsOptionsAreTold) {
  const std::vector<sched::LibrarySpec> libraries = {
      library(plugin_path("good_policies"), GetParam())};
  const auto defaults = registry_.option_defaults("queue", "newest", libraries);
  ASSERT_EQ(defaults.count("alpha"), 1U);
  EXPECT_EQ(std::get<std::int64_t>(defaults.at("alpha").value), 3);
  EXPECT_TRUE(registry_.option_defaults("decode_balancer", "turns", libraries).empty());
  EXPECT_TRUE(registry_.option_defaults("queue", "nobody", libraries).empty());
  EXPECT_EQ(registry_.option_defaults("queue", "fcfs", libraries).count("alpha"), 0U);
  EXPECT_EQ(mapped_copies(), 0);
}

TEST_P(PluginLoaderTest, ALibraryGoesWithItsLastUser) {
  const auto spec = library(plugin_path("good_policies"), GetParam());
  auto factory = loader_->find(spec, "decode_balancer", "turns");
  ASSERT_TRUE(factory.ok() && *factory);
  auto one = (*factory)(OptionTable("decode_balancer"));
  auto two = (*factory)(OptionTable("decode_balancer"));
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(library_counts().loaded, 1) << "one library, whoever uses it";
  factory = sched::PolicyFactory{};
  loader_.reset();
  registry_.set_library_source(nullptr);
  one->reset();
  EXPECT_GT(mapped_copies(), 0) << "an instance is left";
  EXPECT_EQ(chosen(**two), 4U);
  EXPECT_EQ(chosen(**two), 7U);
  two->reset();
  EXPECT_EQ(mapped_copies(), 0);
  EXPECT_EQ(library_counts().loaded, 0);
  EXPECT_EQ(library_counts().pinned, 0);
  EXPECT_EQ(lane_counts().left_behind, 0);
}

TEST_P(PluginLoaderTest, AnotherBuildUnderTheSamePathIsOtherCode) {
  const std::string path = folder_.put_copy("lib.so", plugin_path("good_policies"));
  const auto set = set_of("decode_balancer", "first_fit", library(path, GetParam()));
  auto before = registry_.build("decode_balancer", set);
  ASSERT_TRUE(before.ok());
  EXPECT_EQ(chosen(**before), 4U);
  folder_.put_copy("lib.so", plugin_path("good_policies_2"));
  auto after = registry_.build("decode_balancer", set);
  ASSERT_TRUE(after.ok());
  EXPECT_EQ(chosen(**after), 9U);
  EXPECT_EQ(chosen(**before), 4U) << "what is loaded stays what it is";
  // Overwritten in place, too: what is mapped is a copy.
  std::filesystem::copy_file(plugin_path("bad_policies"), path,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(chosen(**after), 9U);
  EXPECT_FALSE(registry_.build("decode_balancer", set).ok());
  std::filesystem::remove(path);
  EXPECT_EQ(chosen(**after), 9U);
}

TEST_P(PluginLoaderTest, AnotherDigestThanTheSetsIsRefused) {
  const std::string path = folder_.put_copy("lib.so", plugin_path("good_policies"));
  auto spec = library(path, GetParam());
  const auto digest = library_digest(path);
  ASSERT_TRUE(digest.ok());
  EXPECT_EQ(digest->size(), 32U);
  spec.digest = *digest;
  const auto set = set_of("decode_balancer", "first_fit", spec);
  auto built = registry_.build("decode_balancer", set);
  ASSERT_TRUE(built.ok());
  folder_.put_copy("lib.so", plugin_path("good_policies_2"));
  // While that build is in memory, the set goes on with it: a rank's next life needs it.
  auto again = registry_.build("decode_balancer", set);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(chosen(**again), 4U);
  again->reset();
  built->reset();
  // And afterwards, too: it is the way back from the build that lies there now.
  for (const bool is_there : {true, false}) {
    if (!is_there) std::filesystem::remove(path);
    auto back = registry_.build("decode_balancer", set);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(chosen(**back), 4U);
  }
  folder_.put_copy("lib.so", plugin_path("good_policies_2"));
  // Whoever has never loaded it cannot know it.
  const auto other = registry_with(std::make_shared<PluginLoader>(without_preflight()));
  const auto refused = other.build("decode_balancer", set);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::mismatch);
  EXPECT_EQ(refused.error().message.find(path + ": the library's digest is "), 0U);
  EXPECT_NE(refused.error().message.find("the policy set was made with " + *digest),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Isolation, PluginLoaderTest, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "Lane" : "None"; });

/// Whether a library stays in memory after its use, found out in a process of its own.
void expect_pinned(const std::string& name, int pinned) {
  const auto use_and_leave = [&] {
    const auto file = read_library(plugin_path(name));
    if (!file.ok() || !PluginLibrary::load(*file).ok()) std::_Exit(99);
    std::_Exit(static_cast<int>(library_counts().pinned));
  };
  EXPECT_EXIT(use_and_leave(), ::testing::ExitedWithCode(pinned), "") << name;
}

TEST(PluginLibraryDeathTest, OneThatStaysInMemoryIsCounted) {
  expect_pinned("good_policies", 0);
  expect_pinned("unique_unloads", 0);
#if defined(__GNUC__) && !defined(__clang__)
  expect_pinned("unique_pinned", 1);
#endif
}

/// The message of a set that cannot be built.
std::string refusal(const std::string& kind, const std::string& policy,
                    const sched::LibrarySpec& spec, const OptionTable& options = OptionTable()) {
  const auto registry = registry_with(std::make_shared<PluginLoader>(without_preflight()));
  auto set = set_of(kind, policy, spec);
  set.kinds[kind].options = options;
  const auto built = registry.build(kind, set);
  return built.ok() ? "" : built.error().message;
}

OptionTable option(const std::string& key, OptionValue value) {
  OptionTable table;
  table.set(key, std::move(value));
  return table;
}

TEST(PluginLoaderErrors, NameTheFileAndWhatIsWrong) {
  const test::TempFolder folder;
  const auto of_file = [](const std::string& path) {
    return refusal("decode_balancer", "any", library(path));
  };
  EXPECT_EQ(of_file("/nowhere/lib.so"),
            "/nowhere/lib.so: the library cannot be opened: No such file or directory");
  EXPECT_EQ(of_file("/"), "/: expected a shared object, found no regular file");
  const std::string garbage = folder.put("garbage.so", "this is no shared object\n");
  EXPECT_EQ(of_file(garbage), garbage + ": cannot be loaded: garbage.so: file too short");
  const std::string long_garbage = folder.put("long.so", std::string(10'000, '#'));
  EXPECT_EQ(of_file(long_garbage),
            long_garbage + ": cannot be loaded: long.so: invalid ELF header");
  const std::string empty = folder.put("empty.so", "");
  EXPECT_EQ(of_file(empty), empty + ": cannot be loaded: empty.so: file too short");
  EXPECT_EQ(of_file(plugin_path("odd_no_entry")),
            plugin_path("odd_no_entry") +
                ": is no library of policies: it exports no "
                "troupe_plugin_entry; see schedulers/plugin/policy_abi.h");
  EXPECT_EQ(of_file(plugin_path("odd_major")),
            plugin_path("odd_major") +
                ": built for ABI major 2, this host has 1; build it with this host's policy_abi.h");
  EXPECT_NE(of_file(plugin_path("odd_null")).find("returned NULL"), std::string::npos);
  EXPECT_NE(of_file(plugin_path("odd_short")).find("troupe_plugin has 8 bytes"), std::string::npos);
  EXPECT_EQ(mapped_copies(), 0);
  EXPECT_EQ(folder.entries(), 3) << "no private copy is left of what was refused";
}

TEST(PluginLibrary, OneThatIsToldToBeEmptyIsReadAllTheSame) {
  const test::UnsizedFile file("some bytes");
  const auto library = read_library(file.path());
  ASSERT_TRUE(library.ok()) << library.error().message;
  EXPECT_EQ(library->bytes, "some bytes\n");
}

TEST(PluginLoaderErrors, AnUnknownPolicyNamesThoseOfTheLibraryToo) {
  const std::string message =
      refusal("decode_balancer", "first_fti", library(plugin_path("good_policies")));
  EXPECT_NE(message.find("did you mean \"first_fit\"?"), std::string::npos) << message;
  EXPECT_NE(message.find("turns"), std::string::npos);
  EXPECT_NE(message.find("count_and_kv"), std::string::npos);
}

TEST(PluginLoaderErrors, OptionsAreCheckedByTheHost) {
  const auto spec = library(plugin_path("good_policies"));
  EXPECT_EQ(refusal("queue", "newest", spec, option("alpha", {std::int64_t{4}, "p.toml:3"})), "");
  EXPECT_EQ(refusal("queue", "newest", spec, option("alhpa", {std::int64_t{4}, "p.toml:3"})),
            "p.toml:3: queue.alhpa: unknown key; did you mean \"alpha\"?");
  EXPECT_EQ(refusal("queue", "newest", spec, option("alpha", {std::int64_t{11}, "p.toml:3"})),
            "p.toml:3: queue.alpha: found 11, expected a whole number from 0 to 10");
  EXPECT_EQ(
      refusal("step", "sequences_first", spec, option("alpha", {std::int64_t{1}, "p.toml:3"})),
      "p.toml:3: step.alpha: unknown key; this table takes no options");
  const auto bad = library(plugin_path("bad_policies"));
  EXPECT_EQ(refusal("decode_balancer", "bad_schema", bad),
            bad.path + ": decode_balancer \"bad_schema\": options_schema.properties.mode: type is "
                       "\"text\", expected integer, number, boolean or string");
}

TEST(PluginLoaderErrors, AQueueOfALibraryTakesTheHostsWaitBound) {
  const auto registry = registry_with(std::make_shared<PluginLoader>(without_preflight()));
  auto set = set_of("queue", "newest", library(plugin_path("good_policies")));
  set.kinds["queue"].options = option("wait_bound.max_us", {std::int64_t{100}, "p.toml:3"});
  const auto built = registry.build("queue", set);
  ASSERT_TRUE(built.ok()) << built.error().message;
  ContextBuilder context;
  context.now_us = 102;
  const std::vector<sched::RequestView> waiting = {sched::testing::request(1, 5),
                                                   sched::testing::request(90, 5),
                                                   sched::testing::request(91, 5)};
  // Request 1 waits for 101 us, so it goes before what the library prefers.
  EXPECT_EQ(
      dynamic_cast<sched::QueuePolicy&>(**built).order(waiting, context.context()).value->positions,
      (std::vector<std::uint32_t>{0, 2, 1}));
  EXPECT_EQ(refusal("queue", "newest", library(plugin_path("good_policies")),
                    option("wait_bound.max_ms", {std::int64_t{1}, "p.toml:3"})),
            "p.toml:3: queue.wait_bound.max_ms: unknown key; did you mean \"wait_bound.max_us\"?");
}

TEST(PluginLoaderErrors, ACreateThatFailsSaysWhy) {
  const auto spec = library(plugin_path("bad_policies"));
  const auto with_mode = [&](const std::string& mode, bool lane) {
    auto isolated = spec;
    isolated.lane = lane;
    return refusal("decode_balancer", "bad", isolated, option("mode", {mode, ""}));
  };
  for (const bool lane : {false, true}) {
    EXPECT_EQ(with_mode("create_fails", lane),
              spec.path + ": decode_balancer \"bad\": create failed: mode \"create_fails\" is not "
                          "for 3 people");
    EXPECT_EQ(with_mode("create_null", lane),
              spec.path + ": decode_balancer \"bad\": create failed: it returned NULL without a "
                          "reason");
  }
}

TEST(PluginLoaderErrors, ACreateThatHangsIsLeftBehindWithItsLibrary) {
  const test::Hanging hanging;
  auto spec = library(plugin_path("bad_policies"), true);
  spec.create_ms = 200;
  EXPECT_EQ(
      refusal("decode_balancer", "bad", spec, option("mode", {std::string("create_hangs"), ""})),
      spec.path + ": decode_balancer \"bad\": create did not return within 200 ms");
  EXPECT_EQ(lane_counts().left_behind, 1);
  EXPECT_GT(mapped_copies(), 0);
  hanging.let_go();
  EXPECT_EQ(mapped_copies(), 0);
}

// The child of the second look waits until it may go on; what is in memory is told meanwhile.
TEST(PluginLoaderLooks, WhatIsInMemoryWaitsForNoLook) {
  const test::TempFolder folder;
  PluginLoaderOptions options;
  options.child.program = "/bin/sh";
  options.child.arguments = {
      "-c",
      "cd " + folder.file("") + "; if [ ! -e first ]; then touch first; exec " +
          std::string(TROUPE_PREFLIGHT_CHILD) +
          " \"$@\"; fi; touch began; while [ ! -e release ]; do sleep 0.01; done",
      "sh"};
  PluginLoader loader(options);
  auto good = library(plugin_path("good_policies"));
  good.digest = library_digest(good.path).value();
  const auto kept = loader.open(good);
  ASSERT_TRUE(kept.ok()) << kept.error().message;
  std::atomic<bool> is_over{false};
  std::thread other([&] {
    EXPECT_FALSE(loader.open(library(plugin_path("good_policies_2"))).ok()) << "it says nothing";
    is_over = true;
  });
  for (int i = 0; i < 20'000 && !std::filesystem::exists(folder.file("began")); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(std::filesystem::exists(folder.file("began")));
  EXPECT_EQ(loader.version(good), "1.0");
  EXPECT_EQ(loader.names(good, "queue").count("newest"), 1U);
  EXPECT_FALSE(is_over) << "the look is not over";
  folder.put("release", "");
  other.join();
}

} // namespace
} // namespace troupe::actors
