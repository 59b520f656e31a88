// The JSON document of `troupe explain --json`.

#pragma once

#include "schedulers/explain/story.hpp"

#include <string>

namespace troupe::app {

/// One JSON object without newline. Times are microseconds from the request's arrival.
std::string story_json(const sched::Story& story);

} // namespace troupe::app
