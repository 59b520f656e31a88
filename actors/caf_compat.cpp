#include "actors/caf_compat.hpp"

#include <caf/atom.hpp>

namespace troupe::actors {

void tune(caf::actor_system_config& config, int threads) {
  config.set("scheduler.max-threads", static_cast<std::size_t>(threads));
  config.set("work-stealing.moderate-poll-attempts", static_cast<std::size_t>(0));
  config.set("work-stealing.aggressive-poll-attempts", static_cast<std::size_t>(20));
  config.set("work-stealing.relaxed-sleep-duration", caf::timespan{std::chrono::milliseconds{1}});
  config.set("work-stealing.relaxed-steal-interval", static_cast<std::size_t>(1));
}

void use_virtual_time(caf::actor_system_config& config) {
  config.set("scheduler.policy", caf::atom("testing"));
}

} // namespace troupe::actors
