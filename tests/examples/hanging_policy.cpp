// A policy that answers for a while and then waits for ever.

#include <ctime>
#include <troupe/troupe_policy.hpp>

namespace {

using namespace troupe::sdk;

/// Hangs on an empty queue, which nobody asks of it before its deadline was looked at.
struct Hangs : Queue {
  std::uint32_t order(const Requests& waiting, const Call&, Order& order) override {
    const timespec pause{1'000, 0};
    while (waiting.empty())
      ::nanosleep(&pause, nullptr);
    order.by(waiting, [](const RequestView&) { return 0; });
    return TROUPE_REASON_IN_ORDER;
  }
};

} // namespace

TROUPE_PLUGIN("hanging_policy", "1.0.0", policy<Hangs>("hangs"));
