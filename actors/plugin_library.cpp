#include "actors/plugin_library.hpp"

#include "actors/digest.hpp"
#include "engine/text/read_to_end.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace troupe::actors {
namespace {

constexpr std::int64_t kBytesMax = std::int64_t{256} << 20;
constexpr const char* kEntry = "troupe_plugin_entry";

std::atomic<std::int64_t> loaded{0};
std::atomic<std::int64_t> pinned{0};

Error failed(const std::string& path, const std::string& what) {
  return {ErrorCode::io_error, path + ": " + what + ": " + std::strerror(errno)};
}

class Descriptor {
public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int number() const noexcept { return fd_; }
  bool ok() const noexcept { return fd_ >= 0; }

private:
  int fd_;
};

bool write_all(int fd, const std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

/// A folder that only this user may look into, with one file; both go with this object.
class PrivateCopy {
public:
  PrivateCopy() = default;
  PrivateCopy(const PrivateCopy&) = delete;
  PrivateCopy& operator=(const PrivateCopy&) = delete;
  ~PrivateCopy() {
    if (!file_.empty()) ::unlink(file_.c_str());
    if (!folder_.empty()) ::rmdir(folder_.c_str());
  }

  Status make(const LibraryFile& file) {
    const char* given = std::getenv("TMPDIR");
    std::string folder = given != nullptr && *given != '\0' ? given : "/tmp";
    folder += "/troupe-policy-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) {
      return failed(file.path, "no private copy can be made at " + folder);
    }
    folder_ = folder;
    const std::string name = folder_ + "/" + file.digest + ".so";
    const Descriptor out(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700));
    if (!out.ok()) return failed(file.path, "no private copy can be made at " + name);
    file_ = name;
    if (!write_all(out.number(), file.bytes)) {
      return failed(file.path, "the private copy " + name + " cannot be written");
    }
    return {};
  }

  const std::string& file() const noexcept { return file_; }

private:
  std::string folder_;
  std::string file_;
};

/// What dlopen or dlsym complained about, with the name that the user knows.
std::string loader_words(const std::string& copy, const std::string& path) {
  const char* said = ::dlerror();
  std::string words = said != nullptr ? said : "no reason given";
  for (std::size_t at = words.find(copy); at != std::string::npos; at = words.find(copy)) {
    words.replace(at, copy.size(), path.substr(path.rfind('/') + 1));
  }
  if (words.find("failed to map segment") != std::string::npos) {
    words += "; is the folder of temporary files mounted noexec? Set TMPDIR to another one";
  }
  return words;
}

} // namespace

Result<LibraryFile> read_library(const std::string& path) {
  LibraryFile file{path, {}, {}};
  const Descriptor in(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!in.ok()) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::not_found : ErrorCode::io_error;
    return {code, path + ": the library cannot be opened: " + std::strerror(errno)};
  }
  struct stat facts {};
  if (::fstat(in.number(), &facts) != 0) return failed(path, "the library cannot be looked at");
  if (!S_ISREG(facts.st_mode)) {
    return {ErrorCode::bad_argument, path + ": expected a shared object, found no regular file"};
  }
  const auto too_large = [&](const std::string& found) {
    return Error{ErrorCode::bad_argument,
                 fmt::format("{}: {} bytes, expected a shared object of at most {}", path, found,
                             kBytesMax)};
  };
  if (facts.st_size > kBytesMax) return too_large(std::to_string(facts.st_size));
  if (!text::read_to_end(in.number(), facts.st_size, kBytesMax, file.bytes)) {
    return failed(path, "the library cannot be read");
  }
  if (std::ssize(file.bytes) < facts.st_size) {
    return {ErrorCode::io_error, path + ": the library became shorter while it was read"};
  }
  if (std::ssize(file.bytes) > kBytesMax)
    return too_large("more than " + std::to_string(kBytesMax));
  const Digest digest = digest_of(std::string_view(file.bytes));
  file.digest = fmt::format("{:016x}{:016x}", digest.high, digest.low);
  return file;
}

PluginLibrary::PluginLibrary(void* handle, std::string copy, std::string digest)
    : handle_(handle), copy_(std::move(copy)), digest_(std::move(digest)) {
  ++loaded;
}

PluginLibrary::~PluginLibrary() {
  ::dlclose(handle_);
  --loaded;
  if (void* still = ::dlopen(copy_.c_str(), RTLD_LAZY | RTLD_NOLOAD); still != nullptr) {
    ::dlclose(still);
    ++pinned;
  }
}

Result<std::shared_ptr<const PluginLibrary>> PluginLibrary::load(const LibraryFile& file) {
  PrivateCopy copy;
  if (const Status status = copy.make(file); !status.ok()) return status.error();
  void* handle = ::dlopen(copy.file().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return {ErrorCode::unsupported,
            file.path + ": cannot be loaded: " + loader_words(copy.file(), file.path)};
  }
  const std::shared_ptr<PluginLibrary> library(new PluginLibrary(handle, copy.file(), file.digest));
  using Entry = const troupe_plugin* (*)(std::uint32_t);
  // POSIX lets a function travel as a pointer to data.
  const auto entry = reinterpret_cast<Entry>(::dlsym(handle, kEntry));
  if (entry == nullptr) {
    return {ErrorCode::unsupported, file.path + ": is no library of policies: it exports no " +
                                        kEntry + "; see schedulers/plugin/policy_abi.h"};
  }
  const troupe_plugin* plugin = nullptr;
  try {
    plugin = entry(TROUPE_ABI_MAJOR);
  } catch (...) {
    return {ErrorCode::unsupported, file.path + ": " + kEntry + " let an exception out"};
  }
  auto table = sched::read_plugin(plugin);
  if (!table.ok()) return {table.error().code, file.path + ": " + table.error().message};
  library->table_ = std::move(table).value();
  return std::shared_ptr<const PluginLibrary>(library);
}

LibraryCounts library_counts() noexcept { return {loaded.load(), pinned.load()}; }

} // namespace troupe::actors
