// Where a reader of JSON events is, and whether a key stands twice in its object.

#pragma once

#include <set>
#include <string>
#include <vector>

namespace troupe::engine {

/// Follows the events of one text. Memory: the keys of all open objects.
class JsonKeys {
public:
  /// An object or an array begins; false when it is nested too deep.
  bool open();
  void close() { levels_.pop_back(); }
  std::size_t depth() const noexcept { return levels_.size(); }

  /// A key of the innermost object; false when it has stood there before.
  bool take(const std::string& name);

  /// Why open() or take() was false: the place, what was found and what is expected.
  const std::string& problem() const noexcept { return problem_; }

private:
  std::string path() const;

  struct Level {
    std::string key;
    std::set<std::string> seen;
  };
  std::vector<Level> levels_;
  std::string problem_;
};

} // namespace troupe::engine
