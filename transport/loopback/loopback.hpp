// Transport inside one process: endpoints of one hub read each other's memory.
//
// The reader copies, in its own poll() and in bounded pieces. Deregistration waits for a piece that
// is being copied, so memory may be changed or freed as soon as deregister_region has returned.

#pragma once

#include "schedulers/core/result.hpp"
#include "transport/transport.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace troupe::transport {

struct LoopbackOptions {
  std::int64_t piece_bytes = 1 << 20; ///< Copied while deregistration has to wait; at least 1.
  std::int64_t poll_bytes = 8 << 20;  ///< Copied by one poll() at most, but always one piece.
};

/// Where the endpoints of one process meet. Endpoints keep it alive.
///
///   Thread   any; its endpoints may live in different threads
class LoopbackHub {
public:
  explicit LoopbackHub(const LoopbackOptions& options = {});
  ~LoopbackHub();

  /// A new endpoint with the address "loopback:NAME".
  ///
  ///   Errors   bad_argument: the name is empty or in use
  Result<std::unique_ptr<Transport>> open(const std::string& name);

private:
  struct State;
  friend class LoopbackEndpoint;
  std::shared_ptr<State> state_;
};

} // namespace troupe::transport
