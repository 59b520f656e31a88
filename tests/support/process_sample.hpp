// What this process holds of the machine: memory, threads, files.

#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace troupe::test {

struct ProcessSample {
  std::int64_t rss_kib = 0;
  std::int64_t threads = 0;
  std::int64_t files = 0;
};

inline ProcessSample look_at_process() {
  ProcessSample out;
  std::ifstream status("/proc/self/status");
  std::string key;
  while (status >> key) {
    if (key == "VmRSS:") status >> out.rss_kib;
    if (key == "Threads:") status >> out.threads;
  }
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    static_cast<void>(entry);
    ++out.files;
  }
  return out;
}

} // namespace troupe::test
