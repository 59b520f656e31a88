// `troupe policy new NAME`: a folder with a policy that builds, passes its test and the suite.

#include "actors/app/commands.hpp"
#include "actors/app/response_body.hpp"
#include "actors/app/scaffold.hpp"
#include "schedulers/core/printable.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;

Result<ScaffoldLanguage> language_of(const std::string& word) {
  if (word == "c") return ScaffoldLanguage::c;
  if (word == "c++" || word == "cpp") return ScaffoldLanguage::cpp;
  return {ErrorCode::bad_argument,
          fmt::format("--lang: found {}, expected \"c\" or \"c++\"", quote(word))};
}

/// An empty folder may be there already; nothing in it is ever replaced.
Status make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  const bool is_folder = !error && fs::is_directory(folder, error);
  if (!is_folder) {
    return Status(ErrorCode::io_error,
                  fmt::format("{}: cannot be made: {}; choose another place with --dir",
                              folder.string(), error ? error.message() : "it is no folder"));
  }
  if (fs::is_empty(folder, error) && !error) return {};
  return Status(ErrorCode::bad_argument,
                fmt::format("{}: there is something in it already, and nothing is overwritten; "
                            "choose another name, or another place with --dir",
                            folder.string()));
}

Status write(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (out) return {};
  return Status(ErrorCode::io_error, fmt::format("{}: cannot be written", path.string()));
}

void print(const PolicyNewArguments& arguments, const std::string& folder,
           const std::map<std::string, std::string>& files) {
  if (arguments.json) {
    std::string names;
    for (const auto& [name, text] : files)
      names += fmt::format("{}{}", names.empty() ? "" : ",", json_string(name));
    fmt::print("{{\"ok\":true,\"folder\":{},\"files\":[{}]}}\n", json_string(folder), names);
    return;
  }
  for (const auto& [name, text] : files)
    fmt::print("{}\n", (fs::path(folder) / name).string());
  if (arguments.quiet) return;
  fmt::print(stderr,
             "troupe: next:\n"
             "  cmake -S {0} -B {0}/build -DTROUPE_POLICY_DIR=PREFIX\n"
             "  cmake --build {0}/build\n"
             "  troupe policy test {0}/build/lib{1}.so\n"
             "PREFIX is where the SDK is installed, or build/sdk of a Troupe tree.\n",
             folder, arguments.name);
}

} // namespace

int command_policy_new(const PolicyNewArguments& arguments) {
  const auto language = language_of(arguments.language);
  if (!language.ok()) return fail(kExitRefused, language.error().message);
  const auto files = scaffold_files(arguments.name, arguments.kind, *language);
  if (!files.ok()) return fail(kExitRefused, files.error().message);
  const std::string folder = arguments.folder.empty() ? arguments.name : arguments.folder;
  if (const Status made = make_folder(folder); !made.ok()) {
    return fail(kExitRefused, made.error().message);
  }
  for (const auto& [name, text] : *files) {
    const Status written = write(fs::path(folder) / name, text);
    if (!written.ok()) return fail(kExitFailed, written.error().message);
  }
  print(arguments, folder, *files);
  return kExitDone;
}

} // namespace troupe::app
