// A story in words, and why a rank was not chosen.

#pragma once

#include "schedulers/explain/story.hpp"

#include <map>
#include <string>
#include <vector>

namespace troupe::sched {

/// Heading, spans with their facts, decisions with their candidates; ends with a newline.
std::string story_text(const Story& story);

/// One statement for each decision that `rank`, by name or number, was a candidate of: chosen, what
/// it lacked, or what it was measured against. A name goes before a number. Empty: it was a
/// candidate of none.
std::vector<std::string> why_not(const Story& story, const std::string& rank);

/// What `why_not` finds something by: number and name of each candidate.
std::map<RankId, std::string> candidates_of(const Story& story);

} // namespace troupe::sched
