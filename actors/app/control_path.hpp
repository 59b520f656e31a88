// Where a control socket stands, and taking that place: mode 0600, a dead one replaced, a live one
// respected.

#pragma once

#include "schedulers/core/result.hpp"

#include <cstdint>
#include <string>

namespace troupe::app {

/// The path for `wanted`, absolute. A path too long for a socket address gets a short one in a
/// folder of the user's own; the same for everybody who asks with the same path.
std::string control_path(const std::string& wanted);

/// A listening socket at a path; the path goes with it.
class ControlListener {
public:
  /// Errors: busy (a process listens there), io_error (no socket stands there, or it cannot be
  /// made). Waits at most a second for another process that takes the same place.
  static Result<ControlListener> open(const std::string& path);

  ControlListener(ControlListener&& other) noexcept;
  ControlListener& operator=(ControlListener&&) = delete;
  ~ControlListener();

  int descriptor() const noexcept { return socket_; }
  const std::string& path() const noexcept { return path_; }

private:
  ControlListener() = default;

  std::string path_;
  int socket_ = -1;
  std::uint64_t device_ = 0; ///< Of the path, so that nobody else's is removed.
  std::uint64_t inode_ = 0;
};

/// A connected, non-blocking socket; -1 with errno when nobody listens at `path`.
int connect_control(const std::string& path);

} // namespace troupe::app
