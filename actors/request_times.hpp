// When requests reached the points of their lives that metrics count from.
//
// Several actors tell: a request is known from its arrival in the driver to its end, and what is
// told of others is dropped. So this holds no more than the requests in work.

#pragma once

#include "schedulers/core/ids.hpp"

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace troupe::actors {

/// Times are microseconds of one clock.
///
///   Thread   any
///   Cost     a lock and a look-up
class RequestTimes {
public:
  void arrives(RequestId request);

  /// Its first chunk was sent. Only the first attempt counts.
  void begins_prefill(RequestId request, std::int64_t now_us);

  /// Tokens of it came. Returns the time since those before; none = they are the first.
  std::optional<std::int64_t> gets_tokens(RequestId request, std::int64_t now_us);

  /// It is over. Returns when its first chunk was sent; none = never.
  std::optional<std::int64_t> ends(RequestId request);

private:
  struct Times {
    std::optional<std::int64_t> prefill_us, tokens_us;
  };
  std::mutex mutex_;
  std::unordered_map<RequestId, Times> live_;
};

} // namespace troupe::actors
