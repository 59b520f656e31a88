#include "actors/plugin_loader.hpp"

#include "actors/plugin_lane.hpp"
#include "actors/plugin_options.hpp"
#include "schedulers/plugin/plugin_policy.hpp"
#include "schedulers/policies/queue/wait_bound.hpp"

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <utility>

namespace troupe::actors {
namespace {

using sched::LibrarySpec;
using LibraryPtr = std::shared_ptr<const PluginLibrary>;

/// Looks that were passed are remembered, at most so many; then all are forgotten.
constexpr std::size_t kPassedMax = 1024;

/// Libraries whose bytes are kept, those that were loaded last.
constexpr std::size_t kKeptMax = 8;
constexpr std::size_t kKeptBytesMax = 64 << 20;

Error at_path(const std::string& path, const Error& error) {
  const bool is_named = error.message.rfind(path, 0) == 0;
  return {error.code, is_named ? error.message : path + ": " + error.message};
}

} // namespace

struct PluginLoader::State {
  explicit State(PluginLoaderOptions given) : options(std::move(given)) {}

  PluginLoaderOptions options;
  std::mutex looking; ///< Taken first. One child looks at a time, and what it finds is loaded once.
  std::set<std::string> passed;
  std::list<LibraryFile> kept; ///< Newest first. The way back needs them, whatever is on the disk.
  std::mutex mutex;            ///< Of what is in memory: whoever asks for that waits for nobody.
  std::map<std::string, std::weak_ptr<const PluginLibrary>> by_digest;

  Result<LibraryPtr> open(const LibrarySpec& spec);
  Status look(const LibraryFile& file, const LibrarySpec& spec, const PreflightPolicy& policy);
  Status try_policy(const LibraryPtr& library, const LibrarySpec& spec,
                    const PreflightPolicy& policy);
  Result<std::unique_ptr<sched::Policy>> build(const LibraryPtr& library, const LibrarySpec& spec,
                                               const sched::PluginPolicy& row,
                                               const PluginOptions& schema, OptionTable given);

private:
  LibraryPtr in_memory(const std::string& digest);
  Result<LibraryFile> file_of(const LibrarySpec& spec);
  void keep(LibraryFile file);
};

LibraryPtr PluginLoader::State::in_memory(const std::string& digest) {
  const std::lock_guard lock(mutex);
  const auto found = by_digest.find(digest);
  return found == by_digest.end() ? nullptr : found->second.lock();
}

/// @pre `looking` is held
Status PluginLoader::State::look(const LibraryFile& file, const LibrarySpec& spec,
                                 const PreflightPolicy& policy) {
  if (!options.preflight) return {};
  const std::string key = file.digest + '\n' + std::to_string(spec.create_ms) + '\n' + policy.kind +
                          '\n' + policy.name + '\n' + policy.options;
  if (passed.count(key) != 0) return {};
  if (const Status status = preflight(options.child, file, spec, policy); !status.ok()) {
    return status;
  }
  if (passed.size() >= kPassedMax) passed.clear();
  passed.insert(key);
  return {};
}

/// The bytes that the set was made with: those on the disk, or those that were kept.
/// @pre `looking` is held
Result<LibraryFile> PluginLoader::State::file_of(const LibrarySpec& spec) {
  auto file = read_library(spec.path);
  if (spec.digest.empty() || (file.ok() && file->digest == spec.digest)) return file;
  for (const LibraryFile& one : kept) {
    if (one.digest == spec.digest) return one;
  }
  if (!file.ok()) return file;
  return Error{ErrorCode::mismatch,
               spec.path + ": the library's digest is " + file->digest +
                   ", the policy set was made with " + spec.digest +
                   "; put that file back, or give the set anew to take the file as it is now"};
}

/// @pre `looking` is held
void PluginLoader::State::keep(LibraryFile file) {
  kept.remove_if([&](const LibraryFile& one) { return one.digest == file.digest; });
  kept.push_front(std::move(file));
  std::size_t bytes = 0;
  auto last = kept.begin();
  for (std::size_t count = 0; last != kept.end(); ++last, ++count) {
    bytes += last->bytes.size();
    if (count > 0 && (count >= kKeptMax || bytes > kKeptBytesMax)) break;
  }
  kept.erase(last, kept.end());
}

Result<LibraryPtr> PluginLoader::State::open(const LibrarySpec& spec) {
  if (!spec.digest.empty()) {
    if (LibraryPtr library = in_memory(spec.digest)) return library;
  }
  const std::lock_guard one(looking);
  auto file = file_of(spec);
  if (!file.ok()) return file.error();
  if (LibraryPtr library = in_memory(file->digest)) return library;
  if (const Status status = look(*file, spec, {}); !status.ok()) return status.error();
  auto library = PluginLibrary::load(*file);
  if (!library.ok()) return library.error();
  keep(std::move(file).value());
  const std::lock_guard lock(mutex);
  std::erase_if(by_digest, [](const auto& known) { return known.second.expired(); });
  by_digest[(*library)->digest()] = *library;
  return library;
}

Status PluginLoader::State::try_policy(const LibraryPtr& library, const LibrarySpec& spec,
                                       const PreflightPolicy& policy) {
  const std::lock_guard one(looking);
  LibraryFile file{spec.path, {}, library->digest()};
  return look(file, spec, policy);
}

Result<std::unique_ptr<sched::Policy>> PluginLoader::State::build(const LibraryPtr& library,
                                                                  const LibrarySpec& spec,
                                                                  const sched::PluginPolicy& row,
                                                                  const PluginOptions& schema,
                                                                  OptionTable given) {
  // `[queue.wait_bound]` is the host's, whatever policy orders.
  OptionTable rest(given.name());
  OptionTable bound(given.name());
  for (const auto& [key, value] : given.values())
    (row.kind == "queue" && key.rfind("wait_bound.", 0) == 0 ? bound : rest).set(key, value);
  const sched::WaitBoundOptions wait_bound = sched::wait_bound_options(bound);
  if (const Status status = bound.finish(); !status.ok()) return status.error();
  auto json = schema.json_of(std::move(rest));
  if (!json.ok()) return json.error();
  const Status tried = try_policy(library, spec, {row.kind, row.name, *json});
  if (!tried.ok()) return at_path(spec.path, tried.error());
  auto made = sched::make_plugin_policy(row, library, *json, {spec.decide_us, spec.create_ms},
                                        spec.lane ? lane_runner : sched::direct_runner);
  if (!made.ok()) return at_path(spec.path, made.error());
  return sched::with_wait_bound(std::move(made).value(), wait_bound);
}

PluginLoader::PluginLoader(PluginLoaderOptions options)
    : state_(std::make_shared<State>(std::move(options))) {}

PluginLoader::~PluginLoader() = default;

Result<LibraryPtr> PluginLoader::open(const LibrarySpec& library) { return state_->open(library); }

Result<sched::PolicyFactory> PluginLoader::find(const LibrarySpec& spec, const std::string& kind,
                                                const std::string& name) {
  auto opened = state_->open(spec);
  if (!opened.ok()) return opened.error();
  const LibraryPtr library = *opened;
  const sched::PluginPolicy* row = library->table().find(kind, name);
  if (row == nullptr) return sched::PolicyFactory{};
  auto schema = PluginOptions::parse(row->options_schema);
  if (!schema.ok()) {
    return {schema.error().code,
            spec.path + ": " + kind + " \"" + name + "\": " + schema.error().message};
  }
  return sched::PolicyFactory(
      [state = state_, library, spec, row, schema = *schema](OptionTable given) {
        return state->build(library, spec, *row, schema, std::move(given));
      });
}

std::set<std::string> PluginLoader::names(const LibrarySpec& spec, const std::string& kind) {
  std::set<std::string> out;
  const auto library = state_->open(spec);
  if (!library.ok()) return out;
  for (const sched::PluginPolicy& row : (*library)->table().policies) {
    if (row.kind == kind) out.insert(row.name);
  }
  return out;
}

std::string PluginLoader::version(const LibrarySpec& spec) {
  const auto library = state_->open(spec);
  return library.ok() ? (*library)->table().version : std::string();
}

OptionTable::Defaults PluginLoader::option_defaults(const LibrarySpec& spec,
                                                    const std::string& kind,
                                                    const std::string& name) {
  const auto library = state_->open(spec);
  if (!library.ok()) return {};
  const sched::PluginPolicy* row = (*library)->table().find(kind, name);
  if (row == nullptr) return {};
  const auto schema = PluginOptions::parse(row->options_schema);
  if (!schema.ok()) return {};
  OptionTable::Defaults defaults;
  for (const PluginOption& option : schema->all()) {
    if (!option.fallback) continue;
    PluginOption::Value value = *option.fallback;
    const auto* whole = std::get_if<std::int64_t>(&value);
    if (option.type == PluginOption::Type::number && whole != nullptr) {
      value = static_cast<double>(*whole);
    }
    defaults[option.name] = {std::move(value), ""};
  }
  return defaults;
}

Result<std::string> library_digest(const std::string& path) {
  auto file = read_library(path);
  if (!file.ok()) return file.error();
  return file->digest;
}

} // namespace troupe::actors
