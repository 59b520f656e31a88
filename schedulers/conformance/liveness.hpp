// Loops over many questions in a row: is anybody forgotten for ever?

#pragma once

#include "schedulers/conformance/suite.hpp"
#include "schedulers/policy/questions.hpp"

namespace troupe::sched::conformance {

/// A queue that never gets empty: one request comes and the first of the order is served in each
/// round. Whoever came in the first half must have been served at the end.
Finding everybody_is_served(QueuePolicy& policy, const SuiteOptions& options);

/// Equal ranks with room, whose load follows the answers. Some rank must be chosen; ranks that
/// never are make a hint.
template <class Question>
Finding every_rank_is_used(typename Question::Kind& policy, const SuiteOptions& options);

/// Eight prompts on one rank that asks again and again: all must be cut to their end.
Finding prompts_end(PrefillChunker& policy, const SuiteOptions& options);

} // namespace troupe::sched::conformance
