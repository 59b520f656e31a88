// Drafts in the order of their survivals, without a comparison of each with each: survivals lie in
// 0 .. 2^30, so their leading digits say nearly where they go.

#include "schedulers/policies/draft_length/walk.hpp"

#include <array>
#include <functional>

namespace troupe::sched {
namespace {

/// Survivals of one bucket agree in all but their last 19 bits.
constexpr int kShift = 19;
constexpr std::size_t kBuckets = (static_cast<std::size_t>(kCertain) >> kShift) + 1;
/// Fewer are compared.
constexpr std::size_t kFew = 128;

/// From the likeliest to the least likely. @pre in range
std::size_t bucket_of(std::int64_t survival) noexcept {
  return static_cast<std::size_t>(kCertain - survival) >> kShift;
}

bool in_range(std::int64_t survival) noexcept { return survival >= 0 && survival <= kCertain; }

std::span<const std::int64_t> asked_of(const DraftRow& row, bool old) noexcept {
  const auto survivals = old && !row.old_survivals.empty() ? row.old_survivals : row.survivals;
  return survivals.first(std::min(survivals.size(), row.survivals.size()));
}

/// Puts what is nearly in falling order there; false, and any order, when it is not near it.
bool insert_falling(std::vector<std::int64_t>& values) {
  std::size_t left = 8 * values.size();
  for (std::size_t i = 1; i < values.size(); ++i) {
    const std::int64_t value = values[i];
    std::size_t place = i;
    for (; place > 0 && values[place - 1] < value; --place) {
      if (left-- == 0) {
        values[place] = value;
        return false;
      }
      values[place] = values[place - 1];
    }
    values[place] = value;
  }
  return true;
}

/// A draft's place among the likeliest of its bucket.
bool likelier(const Draft& a, const Draft& b) noexcept {
  if (a.survival != b.survival) return a.survival > b.survival;
  return a.row != b.row ? a.row < b.row : a.position < b.position;
}

/// Takes by comparison.
std::size_t take_ranked(std::span<const DraftRow> rows, std::size_t count,
                        std::vector<std::int64_t>& lengths) {
  const std::vector<Draft> drafts = ranked(rows, false);
  const std::size_t taken = std::min(count, drafts.size());
  for (std::size_t k = 0; k < taken; ++k)
    ++lengths[drafts[k].row];
  return taken;
}

} // namespace

std::vector<std::int64_t> falling_survivals(std::span<const DraftRow> rows, bool old) {
  std::vector<std::int64_t> values;
  values.reserve(draft_count(rows));
  bool sane = true;
  for (const DraftRow& row : rows) {
    for (const std::int64_t survival : asked_of(row, old)) {
      sane = sane && in_range(survival);
      values.push_back(survival);
    }
  }
  if (!sane || values.size() < kFew) {
    std::sort(values.begin(), values.end(), std::greater<>{});
    return values;
  }
  std::array<std::uint32_t, kBuckets + 1> begin{};
  for (const std::int64_t value : values)
    ++begin[bucket_of(value) + 1];
  for (std::size_t bucket = 1; bucket < begin.size(); ++bucket)
    begin[bucket] += begin[bucket - 1];
  std::vector<std::int64_t> sorted(values.size());
  for (const std::int64_t value : values)
    sorted[begin[bucket_of(value)]++] = value;
  if (!insert_falling(sorted)) std::sort(sorted.begin(), sorted.end(), std::greater<>{});
  return sorted;
}

std::size_t take_likeliest(std::span<const DraftRow> rows, std::size_t count,
                           std::vector<std::int64_t>& lengths) {
  std::array<std::uint32_t, kBuckets> held{};
  std::size_t all = 0;
  for (const DraftRow& row : rows) {
    all += row.survivals.size();
    for (const std::int64_t survival : row.survivals) {
      if (!in_range(survival)) return take_ranked(rows, count, lengths);
      ++held[bucket_of(survival)];
    }
  }
  const std::size_t taken = std::min(count, all);
  std::size_t last = 0; // The bucket of which not all are taken; those before it are.
  std::size_t whole = 0;
  while (last < kBuckets && whole + held[last] <= taken)
    whole += held[last++];
  std::vector<Draft> rest;
  for (std::uint32_t row = 0; row < rows.size(); ++row) {
    std::int64_t length = 0;
    for (std::uint32_t position = 0; position < rows[row].survivals.size(); ++position) {
      const std::int64_t survival = rows[row].survivals[position];
      const std::size_t bucket = bucket_of(survival);
      length += bucket < last ? 1 : 0;
      if (bucket == last) rest.push_back({survival, row, position});
    }
    lengths[row] += length;
  }
  std::sort(rest.begin(), rest.end(), likelier);
  for (std::size_t k = 0; k < taken - whole; ++k)
    ++lengths[rest[k].row];
  return taken;
}

} // namespace troupe::sched
