// A story in words, and why a rank was not chosen.

#pragma once

#include "schedulers/explain/story.hpp"

#include <string>
#include <vector>

namespace troupe::sched {

/// Heading, spans with their facts, decisions with their candidates; ends with a newline.
std::string story_text(const Story& story);

/// One statement for each decision that `rank`, by name, was a candidate of: chosen, what it
/// lacked, or what it was measured against. Empty: it was a candidate of none.
std::vector<std::string> why_not(const Story& story, const std::string& rank);

} // namespace troupe::sched
