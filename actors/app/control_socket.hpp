// The control socket of a running system: lines of JSON over a Unix domain socket of mode 0600.
//
// One thread with poll serves a bounded number of clients. Nothing that a client sends or leaves
// out holds up another one, or the end.

#pragma once

#include "actors/app/control_path.hpp"
#include "actors/app/control_requests.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

namespace troupe::app {

struct ControlSocketOptions {
  std::size_t clients_max = 16;            ///< More are told so and closed.
  std::size_t line_bytes_max = 8 << 20;    ///< Holds the longest policy file, each byte escaped.
  std::int64_t line_us_max = 10'000'000;   ///< From the first byte of a line to its end.
  std::int64_t idle_us_max = 300'000'000;  ///< Without a request.
  std::int64_t answer_us_max = 10'000'000; ///< Until a client has taken its answer.
};

/// Serves from construction to destruction; the path is removed at the end.
///
///   Thread   one owner; the requests are answered on a thread of its own
class ControlSocket {
public:
  ControlSocket(ControlListener listener, ControlRequests requests, ControlSocketOptions options);
  /// Ends within a fraction of a second, whatever clients do.
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  const std::string& path() const noexcept { return listener_.path(); }

private:
  void serve();

  ControlListener listener_;
  ControlRequests requests_;
  ControlSocketOptions options_;
  std::atomic<bool> stopping_{false};
  int wake_ = -1; ///< Readable when it is time to end.
  std::thread thread_;
};

} // namespace troupe::app
