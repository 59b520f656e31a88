// The other end of a control socket, for the commands: one request, one answer, both bounded.

#pragma once

#include "schedulers/core/result.hpp"

#include <chrono>
#include <string>
#include <string_view>

namespace troupe::app {

/// A connection to a running system. Thread: one owner.
class ControlClient {
public:
  /// @param socket  path of --connect; "" = the one that answers in the working directory
  ///
  /// Errors: not_found, with how to find the socket.
  static Result<ControlClient> connect(const std::string& socket);

  ControlClient(ControlClient&& other) noexcept;
  ControlClient& operator=(ControlClient&&) = delete;
  ~ControlClient();

  /// Sends one line and waits for the line that answers it.
  ///
  /// Errors: io_error (the system ended), timeout.
  Result<std::string> ask(std::string_view line, std::chrono::milliseconds longest);

  const std::string& path() const noexcept { return path_; }

private:
  ControlClient() = default;

  std::string path_;
  int socket_ = -1;
  std::string received_; ///< Behind the last answer.
};

} // namespace troupe::app
