// Watches the policy file of a running system: a text that changed, parses and differs from the
// live one becomes a swap.
//
// A rename over the file, a flip of a link on its path and writing into it all count. A text is
// taken when it has been still for a moment and nobody has the file open for writing, so half a
// file is never applied.

#pragma once

#include "actors/app/config_loader.hpp"
#include "actors/app/control_desk.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

namespace troupe::app {

struct PolicyWatchOptions {
  std::string file;                 ///< Absolute.
  std::string first_text;           ///< The text that the system began with; no change of the file.
  std::int64_t settle_us = 200'000; ///< A change must be still for so long.
  std::int64_t poll_us = 2'000'000; ///< Looks without notice: network file systems tell nothing.
  std::int64_t held_us = 30'000'000;   ///< Open for writing so long, it is said once.
  std::int64_t answer_us = 60'000'000; ///< A swap that is not answered so long is given up.
};

/// Reads a text of the file into a set. Thread: the watch's own.
using PolicyParser = std::function<PolicyOutcome(std::string_view text, const std::string& file)>;

/// Watches from construction to destruction, which ends within a fraction of a second.
///
///   Thread   one owner; files are read and parsed on a thread of its own
///   Errors   are said in the log, once a text: the live set stays
class PolicyWatch {
public:
  PolicyWatch(PolicyWatchOptions options, std::shared_ptr<ControlDesk> desk, PolicyParser parse);
  ~PolicyWatch();
  PolicyWatch(const PolicyWatch&) = delete;
  PolicyWatch& operator=(const PolicyWatch&) = delete;

private:
  void watch();

  PolicyWatchOptions options_;
  std::shared_ptr<ControlDesk> desk_;
  PolicyParser parse_;
  std::atomic<bool> stopping_{false};
  int wake_ = -1; ///< Readable when it is time to end.
  std::thread thread_;
};

} // namespace troupe::app
