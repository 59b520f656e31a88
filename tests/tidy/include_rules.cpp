// Who may include whom: rooms by their path, libraries by the files that may see them.

#include "tests/tidy/rules.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

namespace troupe::tidy {

namespace {

/// What files below `path` may include of this tree: prefixes; a '=' in front wants equality, a '+'
/// a header directly in that folder.
struct Room {
  std::string_view path;
  std::vector<std::string_view> may;
};

/// The longest matching path counts. tests/ and examples/ stand outside of the walls.
const std::vector<Room>& rooms() {
  static const std::vector<Room> all = {
      {"schedulers/core/", {"schedulers/core/"}},
      {"schedulers/", {"schedulers/"}},
      {"kernels/", {"kernels/"}},
      {"engine/", {"engine/", "schedulers/core/", "+kernels/"}},
      {"engine/text/", {"engine/text/", "schedulers/core/"}},
      {"transport/", {"transport/", "schedulers/core/", "=engine/parallel/collective.hpp"}},
      {"actors/",
       {"schedulers/", "actors/", "=engine/engine.hpp", "=engine/step.hpp", "engine/text/",
        "=transport/transport.hpp"}},
      {"actors/app/",
       {"schedulers/", "actors/", "=engine/engine.hpp", "=engine/step.hpp", "engine/text/",
        "=engine/verify.hpp", "=engine/inspect.hpp", "=engine/bench.hpp",
        "=transport/transport.hpp", "=transport/loopback/loopback.hpp"}},
  };
  return all;
}

/// Where a library may be included, by prefixes of paths.
struct Library {
  std::string_view include;
  std::vector<std::string_view> where;
  bool in_headers = false;
};

const std::vector<Library>& libraries() {
  static const std::vector<Library> all = {
      {"caf/", {"actors/", "tests/actors/", "tests/support/"}, true},
      {"google/protobuf/", {"actors/records/codec.cpp", "tests/actors/records/"}},
      {"prometheus/", {"actors/metrics.cpp"}},
      {"sqlite3.h", {"actors/app/journal", "tests/actors/app/", "tests/batch/"}},
      {"toml++/", {"actors/app/config_", "tests/actors/app/"}},
      {"CLI/", {"actors/app/troupe_main.cpp"}},
      {"pcre2.h", {"engine/text/"}},
      {"spdlog/", {"actors/", "engine/", "transport/"}},
      {"fmt/", {"actors/", "engine/", "transport/", "tests/"}},
      {"nlohmann/json_fwd.hpp", {"actors/", "engine/", "tests/"}, true},
      {"nlohmann/", {"actors/", "engine/", "tests/", "examples/"}},
      {"xxhash.h", {"actors/", "engine/", "transport/", "tests/"}},
      {"gtest/", {"tests/"}, true},
      {"zlib.h", {"tests/"}},
      {"openssl/", {"tests/"}},
      {"immintrin.h", {"kernels/cpu/"}, true},
      {"dlfcn.h", {"actors/plugin_library.cpp", "tests/support/"}},
      {"fcntl.h", {"actors/", "engine/", "tests/"}},
      {"poll.h", {"actors/", "tests/"}},
      {"unistd.h", {"actors/", "engine/", "tests/"}},
      {"sched.h", {"tests/"}},
      {"troupe/", {"examples/", "tests/examples/"}},
      {"spawn.h", {"actors/plugin_child.cpp"}},
      {"sys/", {"actors/", "engine/", "tests/"}},
      {"pthread.h", {"actors/app/thread_room", "actors/plugin_traces.cpp"}},
  };
  return all;
}

constexpr std::array<std::string_view, 20> kImpureHeaders = {
    "atomic",        "chrono",       "condition_variable",
    "ctime",         "execution",    "filesystem",
    "fstream",       "future",       "iostream",
    "mutex",         "random",       "semaphore",
    "shared_mutex",  "stop_token",   "thread",
    "csignal",       "latch",        "barrier",
    "unordered_map", "unordered_set"};

bool is_header(const std::string& path) { return path.ends_with(".hpp") || path.ends_with(".h"); }

bool allows(std::span<const std::string_view> may, const std::string& target) {
  return std::any_of(may.begin(), may.end(), [&](std::string_view one) {
    if (one.starts_with('=')) return target == one.substr(1);
    if (!one.starts_with('+')) return target.starts_with(one);
    one.remove_prefix(1);
    return target.starts_with(one) && target.find('/', one.size()) == std::string::npos;
  });
}

const Room* room_of(const std::string& path) {
  const Room* found = nullptr;
  for (const Room& room : rooms()) {
    if (!path.starts_with(room.path)) continue;
    if (found == nullptr || room.path.size() > found->path.size()) found = &room;
  }
  return found;
}

std::optional<std::string> library_fault(const SourceFile& file, const std::string& target) {
  if (target.ends_with(".pb.h") && !target.starts_with("google/protobuf/")) {
    const bool is_codec =
        file.path.starts_with("actors/records/") && file.path.ends_with("codec.cpp");
    if (is_codec) return std::nullopt;
    return "generated records are seen by actors/records/*codec.cpp only";
  }
  for (const Library& library : libraries()) {
    if (!target.starts_with(library.include)) continue;
    if (!allows(library.where, file.path)) return "this library may not be included here";
    const bool is_interface = is_header(file.path) && !file.path.starts_with("tests/");
    if (is_interface && !library.in_headers) return "this library belongs into a .cpp";
    return std::nullopt;
  }
  if (target.find_first_of("./") == std::string::npos) return std::nullopt;
  return "unknown library; tests/tidy/include_rules.cpp lists who may include what";
}

std::optional<std::string> project_fault(const SourceFile& file, const std::string& target) {
  const Room* room = room_of(file.path);
  if (room == nullptr) return std::nullopt;
  if (target.starts_with("tests/")) return "the tree does not depend on its tests";
  if (allows(room->may, target)) return std::nullopt;
  return "outside of what " + std::string(room->path) + " may include";
}

bool is_ours(const std::string& target) {
  constexpr std::array<std::string_view, 7> kRooms = {
      "schedulers/", "actors/", "engine/", "kernels/", "transport/", "tests/", "examples/"};
  return allows(kRooms, target) && !target.ends_with(".pb.h");
}

} // namespace

std::vector<Violation> check_includes(const SourceFile& file) {
  std::vector<Violation> out;
  for (const Include& include : includes_of(file.text)) {
    std::optional<std::string> fault;
    if (is_ours(include.target)) {
      fault = project_fault(file, include.target);
      if (!include.is_quoted) fault = "files of this tree are included with quotes";
    } else if (include.is_quoted && !include.target.ends_with(".pb.h")) {
      fault = "files of this tree are included from its root, libraries in brackets";
    } else {
      fault = library_fault(file, include.target);
    }
    const bool is_impure = std::find(kImpureHeaders.begin(), kImpureHeaders.end(),
                                     include.target) != kImpureHeaders.end();
    if (file.path.starts_with("schedulers/") && is_impure) {
      fault = "what decides has no clock, chance, thread, file or hash order";
    }
    if (fault) out.push_back({file.path, include.line, include.target + ": " + *fault});
  }
  return out;
}

std::vector<Violation> check_own_headers(const std::vector<SourceFile>& files) {
  std::set<std::string_view> paths;
  for (const SourceFile& file : files)
    paths.insert(file.path);
  std::vector<Violation> out;
  for (const SourceFile& file : files) {
    if (!file.path.ends_with(".cpp") || file.path.starts_with("tests/")) continue;
    const std::string header = file.path.substr(0, file.path.size() - 4) + ".hpp";
    if (!paths.contains(header)) continue;
    const std::vector<Include> includes = includes_of(file.text);
    if (!includes.empty() && includes.front().target == header) continue;
    const std::int64_t line = includes.empty() ? 1 : includes.front().line;
    out.push_back({file.path, line, "expected its own header first: " + header});
  }
  return out;
}

} // namespace troupe::tidy
