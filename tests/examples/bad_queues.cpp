// Policies that each break one thing, for `troupe policy test` to find.

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <troupe/troupe_policy.hpp>
#include <unistd.h>

namespace {

using namespace troupe::sdk;

/// By arrival: nothing is wrong with it, and those who derive from it break one thing.
struct Good : Queue {
  std::uint32_t order(const Requests& waiting, const Call&, Order& order) override {
    order.by(waiting, [](const RequestView&) { return 0; });
    return TROUPE_REASON_IN_ORDER;
  }
};

struct Crashes : Good {
  std::uint32_t order(const Requests& waiting, const Call& call, Order& order) override {
    if (waiting.empty()) std::raise(SIGSEGV);
    return Good::order(waiting, call, order);
  }
};

struct Ends : Good {
  std::uint32_t order(const Requests& waiting, const Call& call, Order& order) override {
    if (waiting.empty()) std::_Exit(0);
    return Good::order(waiting, call, order);
  }
};

struct Forks : Good {
  Forks() {
    if (::fork() == 0) ::pause();
  }
};

struct Moves : Good {
  Moves() {
    if (::chdir("/") != 0) std::abort();
  }
};

struct Sleeps : Good {
  std::uint32_t order(const Requests& waiting, const Call& call, Order& order) override {
    const timespec pause{0, 30'000'000};
    ::nanosleep(&pause, nullptr);
    return Good::order(waiting, call, order);
  }
};

struct OutOfRange : Good {
  std::uint32_t order(const Requests& waiting, const Call& call, Order& order) override {
    const std::uint32_t reason = Good::order(waiting, call, order);
    if (waiting.size() > 1) order[0] = static_cast<std::uint32_t>(waiting.size());
    return reason;
  }
};

struct WithoutReason : Good {
  std::uint32_t order(const Requests& waiting, const Call& call, Order& order) override {
    Good::order(waiting, call, order);
    return TROUPE_REASON_UNSET;
  }
};

/// Its answers depend on how many instances there were before it.
struct Alternates : Good {
  static inline int instances = 0;
  int mine = instances++;
  std::uint32_t order(const Requests& waiting, const Call& call, Order& order) override {
    const std::uint32_t reason = Good::order(waiting, call, order);
    if (mine % 2 == 1 && waiting.size() > 1) std::swap(order[0], order[1]);
    return reason;
  }
};

/// Counts its calls and does not carry the count over.
struct Forgets : Good {
  int calls = 0;
  std::uint32_t order(const Requests& waiting, const Call& call, Order& order) override {
    const std::uint32_t reason = Good::order(waiting, call, order);
    if (++calls % 2 == 1 && waiting.size() > 1) std::swap(order[0], order[1]);
    return reason;
  }
};

struct NewestFirst : Good {
  std::uint32_t order(const Requests& waiting, const Call&, Order& order) override {
    order.by(waiting, [](const RequestView& request) { return -request.arrival_us; });
    return TROUPE_REASON_IN_ORDER;
  }
};

struct Throws : Good {
  std::uint32_t order(const Requests&, const Call&, Order&) override {
    throw std::runtime_error("not on a Monday\x1b[31m");
  }
};

struct CannotBegin : Good {
  CannotBegin() { throw std::runtime_error("no such table"); }
};

struct RefusesItsBound : Good {
  explicit RefusesItsBound(const Options& options) {
    if (options.integer("depth", 1) > 8) throw std::runtime_error("depth is above 8");
  }
};

constexpr const char* kDepth = R"({"type": "object", "properties": {"depth": {
  "type": "integer", "default": 1, "minimum": 0, "maximum": 9}}})";
constexpr const char* kWrongDefault = R"({"type": "object", "properties": {"depth": {
  "type": "integer", "default": 12, "minimum": 0, "maximum": 9}}})";

} // namespace

TROUPE_PLUGIN("bad_queues", "1.0.0", policy<Good>("good"), policy<Crashes>("crashes"),
              policy<Ends>("ends"), policy<Forks>("forks"), policy<Moves>("moves"),
              policy<Sleeps>("sleeps"), policy<OutOfRange>("out_of_range"),
              policy<WithoutReason>("without_reason"), policy<Alternates>("alternates"),
              policy<Forgets>("forgets"), policy<NewestFirst>("newest_first"),
              policy<Throws>("throws"), policy<CannotBegin>("cannot_begin"),
              policy<RefusesItsBound>("refuses_its_bound", kDepth),
              policy<Good>("wrong_default", kWrongDefault), policy<Good>("fcfs"));
