// Checks draft lengths against the query they came from.

#include "schedulers/policy/draft_length_policy.hpp"

#include <cstddef>

namespace troupe::sched {

Status validate(const Decision<DraftLengths>& decision, const DraftQuery& query) {
  const auto broken = [](const char* what) { return Status(ErrorCode::bad_argument, what); };
  if (decision.reason == Reason::unset) return broken("a decision carries no reason");
  if (!decision.value) return broken("draft lengths without an answer");
  if (decision.value->lengths.size() != query.rows.size()) {
    return broken("another number of draft lengths than rows");
  }
  for (std::size_t row = 0; row < query.rows.size(); ++row) {
    const std::int64_t length = decision.value->lengths[row];
    const auto drafts = static_cast<std::int64_t>(query.rows[row].survivals.size());
    if (length < 0 || length > drafts) return broken("a draft length beyond the drafts");
  }
  return {};
}

} // namespace troupe::sched
