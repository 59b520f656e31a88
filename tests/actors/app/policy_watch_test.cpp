// Goal: a changed policy file goes live however it was changed, half a file never does, a wrong one
// is told once and leaves the live set as it is.
// Method: a watch with times of milliseconds over a real manager stage; files that are renamed
// over, linked anew, written into, held open, removed.

#include "actors/app/file_notice.hpp"
#include "actors/app/policy_watch.hpp"
#include "tests/actors/app/temporary_folder.hpp"
#include "tests/support/stage_desk.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <thread>
#include <unistd.h>

namespace troupe::app {
namespace {

namespace fs = std::filesystem;
using test::StageDesk;

std::string set_text(const std::string& name, const std::string& policy = "random") {
  return fmt::format("name = \"{}\"\n[prefill_router]\npolicy = \"{}\"\n", name, policy);
}

/// True as soon as `holds`; false after a time that only a broken watch needs.
bool comes(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  return true;
}

class PolicyWatchTest : public testing::Test {
protected:
  PolicyWatchTest() {
    auto registry = std::make_shared<sched::PolicyRegistry>();
    sched::register_builtin_policies(*registry);
    registry_ = registry;
  }

  /// Begins with a file of this text, which is live.
  void start(const std::string& path, const std::string& text) {
    PolicyOutcome first = parse_policy_file(text, path, *registry_);
    ASSERT_TRUE(first.ok()) << error_lines(first.errors);
    desk_ = std::make_shared<StageDesk>(registry_, first.set);
    watch(path, text);
  }
  void watch(const std::string& path, const std::string& text) {
    PolicyWatchOptions options;
    options.file = path;
    options.first_text = text;
    options.settle_us = 10'000;
    options.poll_us = poll_us_;
    watch_ = std::make_unique<PolicyWatch>(
        options, desk_, [this](std::string_view changed, const std::string& file) {
          ++parsed_;
          return parse_policy_file(changed, file, *registry_);
        });
  }

  bool goes_live(const std::string& name) {
    return comes([&] { return desk_->view().live.name == name; });
  }
  /// Lets the watch see that nothing is to be done: it has looked many times.
  static void idle() { std::this_thread::sleep_for(std::chrono::milliseconds{300}); }

  std::string path(const std::string& name) const { return folder_.path(name); }

  TemporaryFolder folder_;
  std::shared_ptr<const sched::PolicyRegistry> registry_;
  std::shared_ptr<StageDesk> desk_;
  std::atomic<int> parsed_{0};
  std::int64_t poll_us_ = 20'000;
  std::unique_ptr<PolicyWatch> watch_;
};

class PolicyWatchEachWay : public PolicyWatchTest, public testing::WithParamInterface<bool> {
protected:
  /// With notices only, or with looks from time to time only in the end.
  void SetUp() override { poll_us_ = GetParam() ? 600'000'000 : 20'000; }
};

INSTANTIATE_TEST_SUITE_P(Notices, PolicyWatchEachWay, testing::Bool(),
                         [](const auto& tested) { return tested.param ? "only" : "and_looks"; });

TEST_P(PolicyWatchEachWay, R13_ARenameOverTheFileGoesLive) {
  start(folder_.write("p.toml", set_text("a")), set_text("a"));
  for (const char* name : {"b", "c", "d"}) {
    fs::rename(folder_.write("new.toml", set_text(name)), path("p.toml"));
    EXPECT_TRUE(goes_live(name)) << name;
  }
  EXPECT_EQ(desk_->swaps(), 3);
  EXPECT_EQ(desk_->view().history.back().how, sched::SwapCause::file);
}

TEST_P(PolicyWatchEachWay, R13_AFlipOfALinkGoesLive) {
  folder_.write("one.toml", set_text("a"));
  fs::create_directory(path("else"));
  folder_.write("else/two.toml", set_text("b"));
  fs::create_symlink("one.toml", path("p.toml"));
  start(path("p.toml"), set_text("a"));
  fs::create_symlink(path("else/two.toml"), path("flip"));
  fs::rename(path("flip"), path("p.toml"));
  EXPECT_TRUE(goes_live("b"));
  folder_.write("else/three.toml", set_text("c"));
  fs::rename(path("else/three.toml"), path("else/two.toml"));
  EXPECT_TRUE(goes_live("c")) << "what the link leads to is watched too";
  fs::create_symlink(path("one.toml"), path("flip"));
  fs::rename(path("flip"), path("p.toml"));
  EXPECT_TRUE(goes_live("a"));
}

TEST_P(PolicyWatchEachWay, R13_AFlipOfALinkedFolderGoesLive) {
  for (const char* name : {"v1", "v2"}) {
    fs::create_directory(path(name));
    folder_.write(std::string(name) + "/p.toml", set_text(name));
  }
  fs::create_symlink("v1", path("..data"));
  fs::create_symlink("..data/p.toml", path("p.toml"));
  start(path("p.toml"), set_text("v1"));
  fs::create_symlink("v2", path("..data_new"));
  fs::rename(path("..data_new"), path("..data"));
  EXPECT_TRUE(goes_live("v2"));
}

TEST_P(PolicyWatchEachWay, R13_TruncateAndWriteGoesLiveAsAWhole) {
  start(folder_.write("p.toml", set_text("a")), set_text("a"));
  const int file = ::open(path("p.toml").c_str(), O_WRONLY | O_TRUNC);
  ASSERT_GE(file, 0);
  const std::string text = set_text("b");
  const std::string half = "name = \"half\"\n"; // Valid by itself.
  ASSERT_EQ(::write(file, half.data(), half.size()), static_cast<ssize_t>(half.size()));
  idle();
  EXPECT_EQ(parsed_, 0) << "half a file was looked at";
  ASSERT_EQ(::pwrite(file, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  idle();
  EXPECT_EQ(desk_->swaps(), 0) << "its writer has not closed it";
  ::close(file);
  EXPECT_TRUE(goes_live("b"));
  EXPECT_EQ(parsed_, 1);
  folder_.write("p.toml", set_text("c"));
  EXPECT_TRUE(goes_live("c"));
}

TEST_F(PolicyWatchTest, R13_ManyChangesEndWithTheLastOne) {
  start(folder_.write("p.toml", set_text("a")), set_text("a"));
  for (int i = 0; i < 200; ++i) {
    const std::string text = set_text(fmt::format("x{}", i));
    if (i % 2 == 0) {
      folder_.write("p.toml", text);
    } else {
      fs::rename(folder_.write("new.toml", text), path("p.toml"));
    }
  }
  EXPECT_TRUE(goes_live("x199"));
  for (const sched::SetHistory& one : desk_->view().history)
    EXPECT_EQ(one.set.text, set_text(one.set.name)) << "a whole file each time";
}

TEST_F(PolicyWatchTest, ALinkInAFolderThatNobodyWatchesIsSeenByLooking) {
  for (const char* name : {"mid", "end"})
    fs::create_directory(path(name));
  folder_.write("end/one.toml", set_text("a"));
  folder_.write("end/two.toml", set_text("b"));
  fs::create_symlink(path("end/one.toml"), path("mid/link"));
  fs::create_symlink(path("mid/link"), path("p.toml"));
  start(path("p.toml"), set_text("a"));
  fs::create_symlink(path("end/two.toml"), path("mid/flip"));
  fs::rename(path("mid/flip"), path("mid/link"));
  EXPECT_TRUE(goes_live("b"));
}

TEST_F(PolicyWatchTest, AWrongFileIsLookedAtOnceAndTheLiveSetStays) {
  start(folder_.write("p.toml", set_text("a")), set_text("a"));
  const std::string wrong = set_text("b", "rondom");
  fs::rename(folder_.write("new.toml", wrong), path("p.toml"));
  EXPECT_TRUE(comes([&] { return parsed_ == 1; }));
  fs::rename(folder_.write("new.toml", wrong), path("p.toml")); // Another file, the same text.
  folder_.write("neighbour.toml", "x");
  idle();
  EXPECT_EQ(parsed_, 1);
  EXPECT_EQ(desk_->swaps(), 0);
  EXPECT_EQ(desk_->view().live.name, "a");
  folder_.write("p.toml", "");
  EXPECT_TRUE(comes([&] { return parsed_ == 2; })) << "an emptied file is one that is wrong";
  folder_.write("p.toml", set_text("c"));
  EXPECT_TRUE(goes_live("c"));
}

TEST_F(PolicyWatchTest, ASetThatAStageRefusesIsAskedForOnce) {
  start(folder_.write("p.toml", set_text("a")), set_text("a"));
  folder_.write("p.toml", "# refuse me\n" + set_text("b"));
  EXPECT_TRUE(comes([&] { return desk_->swaps() == 1; }));
  idle();
  EXPECT_EQ(desk_->swaps(), 1);
  EXPECT_EQ(desk_->view().live.name, "a");
}

TEST_F(PolicyWatchTest, TheSameTextIsNoChange) {
  start(folder_.write("p.toml", set_text("a")), set_text("a"));
  fs::rename(folder_.write("new.toml", set_text("a")), path("p.toml"));
  fs::remove(path("p.toml"));
  idle();
  folder_.write("p.toml", set_text("a"));
  idle();
  EXPECT_EQ(desk_->swaps(), 0);
  EXPECT_EQ(parsed_, 0);
}

TEST_F(PolicyWatchTest, WhatACommandMadeLiveStaysUntilTheFileChanges) {
  start(folder_.write("p.toml", set_text("a")), set_text("a"));
  sched::SwapAsked asked;
  asked.set = parse_policy_file(set_text("by_hand"), "x", *registry_).set;
  ASSERT_TRUE(desk_->ask(asked).get().ok);
  folder_.write("p.toml", set_text("a")); // Touched, not changed.
  idle();
  EXPECT_EQ(desk_->view().live.name, "by_hand");
  folder_.write("p.toml", set_text("c"));
  EXPECT_TRUE(goes_live("c"));
}

TEST_F(PolicyWatchTest, AFileThatComesBackIsTaken) {
  start(folder_.write("p.toml", set_text("a")), set_text("a"));
  fs::remove(path("p.toml"));
  idle();
  EXPECT_EQ(desk_->view().live.name, "a");
  folder_.write("p.toml", set_text("b"));
  EXPECT_TRUE(goes_live("b"));
}

TEST_F(PolicyWatchTest, AChangeBeforeTheWatchBeganIsSeen) {
  start(folder_.write("p.toml", set_text("b")), set_text("a"));
  EXPECT_TRUE(goes_live("b"));
}

TEST_F(PolicyWatchTest, ItsFolderMayBeBusy) {
  start(folder_.write("p.toml", set_text("a")), set_text("a"));
  std::atomic<bool> over{false};
  std::thread neighbour([&] {
    for (int i = 0; !over; ++i)
      folder_.write(fmt::format("other{}", i % 5), "x");
  });
  folder_.write("p.toml", set_text("b"));
  EXPECT_TRUE(goes_live("b"));
  over = true;
  neighbour.join();
}

TEST_F(PolicyWatchTest, EndsWhileASwapIsUnderWay) {
  start(folder_.write("p.toml", set_text("a")), set_text("a"));
  desk_->be_silent(true);
  folder_.write("p.toml", set_text("b"));
  EXPECT_TRUE(comes([&] { return desk_->swaps() == 1; }));
  const auto begin = std::chrono::steady_clock::now();
  watch_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{5});
}

TEST(FileNotice, KnowsWhoWrites) {
  const TemporaryFolder folder;
  const std::string path = folder.write("f", "x");
  EXPECT_EQ(is_being_written(path), false);
  const int reader = ::open(path.c_str(), O_RDONLY);
  EXPECT_EQ(is_being_written(path), false);
  const int writer = ::open(path.c_str(), O_WRONLY);
  EXPECT_EQ(is_being_written(path), true);
  ::close(writer);
  EXPECT_EQ(is_being_written(path), false);
  ::close(reader);
  EXPECT_EQ(is_being_written(folder.path("absent")), false);
}

} // namespace
} // namespace troupe::app
