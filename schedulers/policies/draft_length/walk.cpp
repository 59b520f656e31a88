#include "schedulers/policies/draft_length/walk.hpp"

namespace troupe::sched {

std::size_t take_likeliest(std::span<const DraftRow> rows, std::size_t count,
                           std::vector<std::int64_t>& lengths) {
  const SurvivalBuckets drafts(rows, false);
  if (count == 0 || drafts.size() == 0) return 0;
  const std::size_t taken = std::min(count, drafts.size());
  const SurvivalBuckets::Cut cut = drafts.cut(taken);
  std::size_t left = cut.equal;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    std::size_t length = 0;
    std::size_t equal = 0;
    for (const std::int64_t survival : rows[row].survivals) {
      length += survival > cut.least ? 1 : 0;
      equal += survival == cut.least ? 1 : 0;
    }
    equal = std::min(equal, left);
    left -= equal;
    lengths[row] += static_cast<std::int64_t>(length + equal);
  }
  return taken;
}

} // namespace troupe::sched
