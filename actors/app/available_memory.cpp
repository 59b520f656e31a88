#include "actors/app/available_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace troupe::app {

namespace {

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

std::int64_t of_machine() {
  std::ifstream in("/proc/meminfo");
  std::string key;
  std::int64_t kib = 0;
  std::string unit;
  while (in >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    std::getline(in, unit);
  }
  return kUnknown;
}

std::int64_t number_in(const char* path) {
  std::int64_t value = 0;
  return std::ifstream(path) >> value ? value : kUnknown; // "max" is no number: no limit.
}

std::int64_t of_group() {
  const std::int64_t limit = number_in("/sys/fs/cgroup/memory.max");
  const std::int64_t used = number_in("/sys/fs/cgroup/memory.current");
  if (limit == kUnknown || used == kUnknown) return kUnknown;
  return std::max<std::int64_t>(0, limit - used);
}

} // namespace

std::int64_t available_memory_bytes() { return std::min(of_machine(), of_group()); }

} // namespace troupe::app
