#include "engine/model/json_keys.hpp"

#include "schedulers/core/printable.hpp"

namespace troupe::engine {

namespace {

/// Far above any published file.
constexpr std::size_t kDepthMax = 64;

} // namespace

bool JsonKeys::open() {
  if (levels_.size() == kDepthMax) {
    problem_ = path() + ": is nested deeper than " + std::to_string(kDepthMax) + " levels";
    return false;
  }
  levels_.emplace_back();
  return true;
}

bool JsonKeys::take(const std::string& name) {
  Level& level = levels_.back();
  level.key = name;
  if (level.seen.insert(name).second) return true;
  problem_ = path() + ": stands twice in one object, expected once";
  return false;
}

/// The keys that lead to this place, "a.b.c".
std::string JsonKeys::path() const {
  std::string out;
  for (const Level& level : levels_) {
    if (!level.key.empty()) out += (out.empty() ? "" : ".") + level.key;
  }
  return out.empty() ? "the value" : printable(out);
}

} // namespace troupe::engine
