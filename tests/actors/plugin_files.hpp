// The test libraries, a folder of the test's own, and what of them is mapped in this process.

#pragma once

#include "actors/plugin_lane.hpp"
#include "actors/plugin_loader.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace troupe::test {

inline std::string plugin_path(const std::string& name) {
  return std::string(TROUPE_PLUGIN_DIR) + "/" + name + ".so";
}

/// A library of a set, with limits that a busy machine keeps.
inline sched::LibrarySpec library(const std::string& path, bool lane = false) {
  sched::LibrarySpec spec;
  spec.path = path;
  spec.lane = lane;
  spec.decide_us = 20'000'000;
  spec.create_ms = 20'000;
  return spec;
}

inline actors::PluginLoaderOptions loader_options() {
  actors::PluginLoaderOptions options;
  options.child = {TROUPE_PREFLIGHT_CHILD, {}};
  return options;
}

/// Mappings of private copies in this process. They are deleted files of a folder of ours.
inline int mapped_copies() {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  int found = 0;
  while (std::getline(maps, line))
    found += line.find("/troupe-policy-") != std::string::npos ? 1 : 0;
  return found;
}

/// A folder that is TMPDIR while it lives.
class TempFolder {
public:
  TempFolder() {
    std::string name = ::testing::TempDir() + "troupe-plugin-test-XXXXXX";
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
    const char* before = std::getenv("TMPDIR");
    if (before != nullptr) before_ = before;
    ::setenv("TMPDIR", path_.c_str(), 1);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    before_.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", before_.c_str(), 1);
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string file(const std::string& name) const { return path_ + "/" + name; }
  /// Puts bytes there as a builder would: a new file takes the name.
  std::string put(const std::string& name, const std::string& bytes) const {
    std::ofstream(file(name + ".new"), std::ios::binary) << bytes;
    std::filesystem::rename(file(name + ".new"), file(name));
    return file(name);
  }
  std::string put_copy(const std::string& name, const std::string& of) const {
    std::ostringstream bytes;
    bytes << std::ifstream(of, std::ios::binary).rdbuf();
    return put(name, bytes.str());
  }
  int entries() const {
    int n = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path_))
      ++n;
    return n;
  }

private:
  std::string path_;
  std::string before_;
};

/// Calls of the test library that hang, in this process and in children, do so until let_go().
class Hanging {
public:
  Hanging() { ::setenv("TROUPE_TEST_RELEASE", folder_.file("release").c_str(), 1); }
  Hanging(const Hanging&) = delete;
  Hanging& operator=(const Hanging&) = delete;
  ~Hanging() {
    let_go();
    ::unsetenv("TROUPE_TEST_RELEASE");
  }

  /// Waits until all lanes that were left behind are gone.
  void let_go() const {
    folder_.put("release", "");
    for (int i = 0; i < 60'000 && actors::lane_counts().left_behind > 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(actors::lane_counts().left_behind, 0);
  }

private:
  TempFolder folder_;
};

} // namespace troupe::test
