// Makes the story of a life.

#pragma once

#include "schedulers/explain/life.hpp"
#include "schedulers/explain/story.hpp"
#include "schedulers/explain/words.hpp"

namespace troupe::sched {

/// Pure. @pre the entries of `life` are sorted
Story tell(const Life& life, const RankNames& names);

} // namespace troupe::sched
