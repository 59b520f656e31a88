#include "schedulers/policies/draft_length/walk.hpp"

#include <array>

namespace troupe::sched {

std::size_t take_likeliest(std::span<const DraftRow> rows, std::size_t count,
                           std::vector<std::int64_t>& lengths) {
  std::array<std::uint32_t, SurvivalBucket::kBuckets> held{};
  std::size_t all = 0;
  for (const DraftRow& row : rows) {
    all += row.survivals.size();
    for (const std::int64_t survival : row.survivals)
      ++held[SurvivalBucket::of(survival)];
  }
  const std::size_t taken = std::min(count, all);
  if (taken == 0) return 0;
  std::size_t last = 0; // The bucket of the last one that is taken.
  std::size_t whole = 0;
  while (whole + held[last] < taken)
    whole += held[last++];
  const std::int64_t highest = SurvivalBucket::highest(last);
  const std::int64_t lowest = SurvivalBucket::lowest(last);
  std::vector<Draft> rest;
  rest.reserve(held[last]);
  for (std::uint32_t row = 0; row < rows.size(); ++row) {
    std::int64_t length = 0;
    for (std::uint32_t position = 0; position < rows[row].survivals.size(); ++position) {
      const std::int64_t survival = rows[row].survivals[position];
      length += survival > highest ? 1 : 0;
      if (survival >= lowest && survival <= highest) rest.push_back({survival, row, position});
    }
    lengths[row] += length;
  }
  std::sort(rest.begin(), rest.end(), likelier);
  for (std::size_t k = 0; k < taken - whole; ++k)
    ++lengths[rest[k].row];
  return taken;
}

} // namespace troupe::sched
