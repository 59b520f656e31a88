#include "schedulers/model/expert_map.hpp"

#include "schedulers/model/integer_math.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <string>
#include <tuple>

namespace troupe::sched {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

Status wrong(const std::string& what) { return Status(ErrorCode::bad_argument, what); }

std::span<const std::int32_t> of_gpu(const ExpertTopology& topology,
                                     std::span<const std::int32_t> slots, std::int64_t gpu) {
  return slots.subspan(at(topology.first_slot(gpu)), at(topology.slots_of(gpu)));
}

/// GPUs with the same number of slots on the same node may change their names.
bool interchangeable(const ExpertTopology& topology, std::int64_t a, std::int64_t b) {
  const std::int64_t per_node = topology.by_node() ? topology.gpus / topology.nodes : topology.gpus;
  return a / per_node == b / per_node && topology.slots_of(a) == topology.slots_of(b);
}

/// [gpus] the old GPU whose name each new GPU takes.
std::vector<std::int64_t> match(const ExpertTopology& topology,
                                std::span<const std::int32_t> before,
                                std::span<const std::int32_t> after) {
  std::vector<std::vector<std::int64_t>> homes(at(topology.experts));
  for (std::int64_t slot = 0; slot < topology.slots; ++slot)
    homes[at(before[at(slot)])].push_back(topology.gpu_of(slot));
  std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>> pairs; // -overlap, new, old
  std::vector<std::int64_t> overlap(at(topology.gpus));
  for (std::int64_t gpu = 0; gpu < topology.gpus; ++gpu) {
    std::fill(overlap.begin(), overlap.end(), 0);
    for (const std::int32_t expert : of_gpu(topology, after, gpu)) {
      for (const std::int64_t home : homes[at(expert)])
        ++overlap[at(home)];
    }
    for (std::int64_t old = 0; old < topology.gpus; ++old) {
      if (overlap[at(old)] > 0 && interchangeable(topology, gpu, old)) {
        pairs.emplace_back(-overlap[at(old)], gpu, old);
      }
    }
  }
  std::sort(pairs.begin(), pairs.end());
  std::vector<std::int64_t> name(at(topology.gpus), -1);
  std::vector<bool> taken(at(topology.gpus), false);
  for (const auto& [less, gpu, old] : pairs) {
    if (name[at(gpu)] >= 0 || taken[at(old)]) continue;
    name[at(gpu)] = old;
    taken[at(old)] = true;
  }
  for (std::int64_t gpu = 0; gpu < topology.gpus; ++gpu) {
    for (std::int64_t old = 0; name[at(gpu)] < 0 && old < topology.gpus; ++old) {
      if (taken[at(old)] || !interchangeable(topology, gpu, old)) continue;
      name[at(gpu)] = old;
      taken[at(old)] = true;
    }
  }
  return name;
}

} // namespace

Status check_topology(const ExpertTopology& t) {
  if (t.experts < 1 || t.gpus < 1 || t.groups < 1 || t.nodes < 1) {
    return wrong("experts, GPUs, groups and nodes are at least 1");
  }
  if (t.slots < t.experts) {
    return wrong("found " + std::to_string(t.slots) + " slots for " + std::to_string(t.experts) +
                 " experts; every expert needs one: use at least " + std::to_string(t.experts) +
                 " slots");
  }
  if (t.slots < t.gpus) {
    return wrong("found " + std::to_string(t.slots) + " slots on " + std::to_string(t.gpus) +
                 " GPUs; every GPU needs one");
  }
  constexpr std::int64_t kSlotsMax = 1 << 20;
  if (t.slots > kSlotsMax) {
    return wrong("found " + std::to_string(t.slots) + " slots, expected at most " +
                 std::to_string(kSlotsMax));
  }
  return {};
}

FineLoads::FineLoads(std::span<const std::int64_t> loads) {
  constexpr std::array<std::int64_t, 5> kUnits = {720'720, 5040, 60, 12, 1};
  constexpr Int128 kMax = Int128{1} << 61;
  Int128 sum = 0;
  for (const std::int64_t load : loads)
    sum += std::max<std::int64_t>(0, load);
  const auto fits = [&](std::int64_t unit) { return sum * unit < kMax; };
  const auto unit = std::find_if(kUnits.begin(), kUnits.end(), fits);
  unit_ = unit == kUnits.end() ? 0 : *unit;
  std::int64_t divisor = 1;
  while (unit_ == 0 && sum / divisor >= kMax)
    divisor *= 2;
  fine_.reserve(loads.size());
  for (const std::int64_t load : loads) {
    const std::int64_t kept = std::max<std::int64_t>(0, load);
    fine_.push_back(unit_ > 0 ? kept * unit_ : kept / divisor);
    total_ += fine_.back();
  }
}

bool usable_loads(std::span<const std::int64_t> loads, std::int64_t experts) noexcept {
  if (static_cast<std::int64_t>(loads.size()) != experts) return false;
  const bool negative = std::any_of(loads.begin(), loads.end(), [](auto load) { return load < 0; });
  return !negative && std::any_of(loads.begin(), loads.end(), [](auto load) { return load > 0; });
}

std::vector<std::int64_t> copies_of(std::span<const std::int32_t> slots, std::int64_t experts) {
  std::vector<std::int64_t> copies(at(experts), 0);
  for (const std::int32_t expert : slots)
    ++copies[at(expert)];
  return copies;
}

std::vector<std::int64_t> gpu_loads(const ExpertTopology& topology,
                                    std::span<const std::int32_t> slots, const FineLoads& loads) {
  const std::vector<std::int64_t> copies = copies_of(slots, topology.experts);
  std::vector<std::int64_t> sums(at(topology.gpus), 0);
  for (std::int64_t gpu = 0; gpu < topology.gpus; ++gpu) {
    for (const std::int32_t expert : of_gpu(topology, slots, gpu))
      sums[at(gpu)] += loads.share(expert, copies[at(expert)]);
  }
  return sums;
}

std::int64_t imbalance_millionths(std::span<const std::int64_t> gpu_loads) {
  constexpr std::int64_t kOne = 1'000'000;
  if (gpu_loads.empty()) return kOne;
  const std::int64_t total = std::accumulate(gpu_loads.begin(), gpu_loads.end(), std::int64_t{0});
  if (total <= 0) return kOne;
  const std::int64_t highest = *std::max_element(gpu_loads.begin(), gpu_loads.end());
  return scale(highest, static_cast<std::int64_t>(gpu_loads.size()) * kOne, total);
}

std::int64_t count_moves(const ExpertTopology& topology, std::span<const std::int32_t> before,
                         std::span<const std::int32_t> after) {
  if (before.size() != after.size()) return static_cast<std::int64_t>(after.size());
  std::int64_t moves = 0;
  for (std::int64_t gpu = 0; gpu < topology.gpus; ++gpu) {
    const auto had = of_gpu(topology, before, gpu);
    const auto has = of_gpu(topology, after, gpu);
    for (std::size_t i = 0; i < has.size(); ++i) {
      if (had[i] == has[i]) continue;
      // A second copy on the same GPU is a copy inside its memory, no transfer.
      moves += std::find(had.begin(), had.end(), has[i]) == had.end() ? 1 : 0;
    }
  }
  return moves;
}

bool has_twins(const ExpertTopology& topology, std::span<const std::int32_t> slots) {
  for (std::int64_t gpu = 0; gpu < topology.gpus; ++gpu) {
    const auto held = of_gpu(topology, slots, gpu);
    for (std::size_t i = 0; i < held.size(); ++i) {
      if (std::find(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(i), held[i]) !=
          held.begin() + static_cast<std::ptrdiff_t>(i)) {
        return true;
      }
    }
  }
  return false;
}

std::vector<std::int32_t> keep_places(const ExpertTopology& topology,
                                      std::span<const std::int32_t> before,
                                      std::vector<std::int32_t> after) {
  if (before.size() != after.size()) return after;
  const std::vector<std::int64_t> name = match(topology, before, after);
  std::vector<std::int32_t> kept(after.size(), -1);
  for (std::int64_t gpu = 0; gpu < topology.gpus; ++gpu) {
    const std::int64_t home = name[at(gpu)];
    const auto had = of_gpu(topology, before, home);
    const auto first = kept.begin() + topology.first_slot(home);
    std::vector<std::int32_t> come;
    for (const std::int32_t expert : of_gpu(topology, after, gpu)) {
      std::size_t place = 0;
      while (place < had.size() &&
             (had[place] != expert || first[static_cast<std::ptrdiff_t>(place)] >= 0))
        ++place;
      if (place < had.size()) {
        first[static_cast<std::ptrdiff_t>(place)] = expert;
      } else {
        come.push_back(expert);
      }
    }
    auto next = come.begin();
    for (std::size_t place = 0; place < had.size(); ++place) {
      auto& slot = first[static_cast<std::ptrdiff_t>(place)];
      if (slot < 0) slot = *next++;
    }
  }
  return kept;
}

} // namespace troupe::sched
