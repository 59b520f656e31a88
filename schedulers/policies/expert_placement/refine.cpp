#include "schedulers/policies/expert_placement/refine.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace troupe::sched {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

} // namespace

ExpertPool::ExpertPool(const FineLoads& loads, std::vector<std::int64_t> capacity)
    : loads_(&loads), capacity_(std::move(capacity)) {}

void ExpertPool::set_shares(std::span<const std::int64_t> copies) {
  share_.clear();
  for (std::size_t e = 0; e < copies.size(); ++e)
    share_.push_back(loads_->share(static_cast<std::int64_t>(e), copies[e]));
}

bool ExpertPool::has_room(std::size_t gpu) const {
  return static_cast<std::int64_t>(held_[gpu].size()) < capacity_[gpu];
}

bool ExpertPool::holds(std::size_t gpu, std::int32_t expert) const {
  return std::find(held_[gpu].begin(), held_[gpu].end(), expert) != held_[gpu].end();
}

void ExpertPool::add(std::size_t gpu, std::int32_t expert) {
  held_[gpu].push_back(expert);
  load_[gpu] += share(expert);
}

void ExpertPool::fill(std::span<const std::int64_t> copies) {
  set_shares(copies);
  held_.resize(capacity_.size());
  for (auto& experts : held_)
    experts.clear();
  load_.assign(capacity_.size(), 0);
  heaviest_.clear();
  for (std::size_t e = 0; e < copies.size(); ++e)
    heaviest_.push_back(static_cast<std::int32_t>(e));
  std::sort(heaviest_.begin(), heaviest_.end(), [&](std::int32_t a, std::int32_t b) {
    return share(a) != share(b) ? share(a) > share(b) : a < b;
  });
  gpus_.clear();
  for (std::size_t gpu = 0; gpu < held_.size(); ++gpu) {
    if (capacity_[gpu] > 0) gpus_.add(0, gpu);
  }
  for (const std::int32_t expert : heaviest_) {
    for (std::int64_t copy = 0; copy < copies[at(expert)]; ++copy)
      place(expert);
  }
}

void ExpertPool::place(std::int32_t expert) {
  passed_.clear();
  while (!gpus_.empty() && holds(gpus_.top().index, expert))
    passed_.push_back(gpus_.take());
  if (gpus_.empty()) {
    squeeze(expert);
    gpus_.clear(); // Loads of others changed with it.
    for (std::size_t gpu = 0; gpu < held_.size(); ++gpu) {
      if (has_room(gpu)) gpus_.add(load_[gpu], gpu);
    }
    return;
  }
  const std::size_t gpu = gpus_.take().index;
  add(gpu, expert);
  if (has_room(gpu)) gpus_.add(load_[gpu], gpu);
  for (const LightestFirst::Bin& one : passed_)
    gpus_.add(one.load, one.index);
}

void ExpertPool::squeeze(std::int32_t expert) {
  std::size_t room = 0;
  while (!has_room(room))
    ++room;
  for (std::size_t gpu = 0; gpu < held_.size(); ++gpu) {
    if (holds(gpu, expert)) continue;
    for (std::int32_t& other : held_[gpu]) {
      if (holds(room, other)) continue;
      load_[gpu] += share(expert) - share(other);
      add(room, other);
      other = expert;
      return;
    }
  }
  add(room, expert);
}

void ExpertPool::take(std::vector<std::vector<std::int32_t>> held) {
  held_ = std::move(held);
  std::vector<std::int64_t> copies(at(loads_->experts()), 0);
  for (const auto& experts : held_) {
    for (const std::int32_t expert : experts)
      ++copies[at(expert)];
  }
  set_shares(copies);
  load_.assign(held_.size(), 0);
  for (std::size_t gpu = 0; gpu < held_.size(); ++gpu) {
    for (const std::int32_t expert : held_[gpu])
      load_[gpu] += share(expert);
  }
}

ExpertPool::Exchange ExpertPool::best_exchange(std::size_t hottest) const {
  Exchange best{held_.size(), 0, 0, load_[hottest]};
  // The lightest GPU first: what it can do leaves little for most others to look at.
  std::size_t lightest = held_.size();
  for (std::size_t gpu = 0; gpu < held_.size(); ++gpu) {
    if (gpu != hottest && (lightest == held_.size() || load_[gpu] < load_[lightest])) {
      lightest = gpu;
    }
  }
  if (lightest == held_.size()) return best;
  exchange_with(lightest, hottest, best);
  for (std::size_t gpu = 0; gpu < held_.size(); ++gpu) {
    // What moves is no less than hottest - best and no more than best - gpu.
    const bool hopeless = best.highest - load_[gpu] < load_[hottest] - best.highest;
    if (gpu != hottest && gpu != lightest && !hopeless) exchange_with(gpu, hottest, best);
  }
  return best;
}

void ExpertPool::exchange_with(std::size_t gpu, std::size_t hottest, Exchange& best) const {
  const std::int64_t hot = load_[hottest];
  const std::int64_t cool = load_[gpu];
  for (std::size_t mine = 0; mine < held_[hottest].size(); ++mine) {
    const std::int32_t give = held_[hottest][mine];
    const std::int64_t weight = share(give);
    if (weight < hot - best.highest) continue; // It takes no more than this away.
    // What comes back must leave both sides no hotter than the best so far.
    std::int64_t least = weight - (best.highest - cool);
    std::int64_t most = weight - (hot - best.highest);
    for (std::size_t theirs = 0; theirs < held_[gpu].size(); ++theirs) {
      const std::int32_t back = held_[gpu][theirs];
      if (share(back) < least || share(back) > most) continue;
      const std::int64_t moved = weight - share(back);
      const std::int64_t highest = std::max(hot - moved, cool + moved);
      const bool is_earlier =
          best.gpu < held_.size() &&
          std::tie(gpu, mine, theirs) < std::tie(best.gpu, best.mine, best.theirs);
      if (highest == best.highest && !is_earlier) continue;
      if (holds(gpu, give) || holds(hottest, back)) continue;
      best = {gpu, mine, theirs, highest};
      least = weight - (highest - cool);
      most = weight - (hot - highest);
    }
  }
}

void ExpertPool::level(std::int64_t rounds_max) {
  for (std::int64_t round = 0; round < rounds_max; ++round) {
    const auto hottest =
        static_cast<std::size_t>(std::max_element(load_.begin(), load_.end()) - load_.begin());
    const Exchange best = best_exchange(hottest);
    if (best.gpu == held_.size()) return;
    std::int32_t& mine = held_[hottest][best.mine];
    std::int32_t& theirs = held_[best.gpu][best.theirs];
    const std::int64_t moved = share(mine) - share(theirs);
    load_[hottest] -= moved;
    load_[best.gpu] += moved;
    std::swap(mine, theirs);
  }
}

std::int64_t ExpertPool::mean() const {
  const auto gpus = static_cast<std::int64_t>(load_.size());
  return (std::accumulate(load_.begin(), load_.end(), std::int64_t{0}) + gpus - 1) / gpus;
}

std::int64_t ExpertPool::highest() const { return *std::max_element(load_.begin(), load_.end()); }

bool ExpertPool::twins() const {
  for (const auto& experts : held_) {
    for (auto it = experts.begin(); it != experts.end(); ++it) {
      if (std::find(experts.begin(), it, *it) != it) return true;
    }
  }
  return false;
}

} // namespace troupe::sched
