// Rank groups of a test's configuration, named by their role.

#pragma once

#include "actors/app/system_config.hpp"

#include <cstdint>
#include <string>

namespace troupe::test {

/// Adds `count` ranks of one role; none when `count` is 0.
inline app::RankGroupConfig* add_ranks(app::SystemConfig& config, sched::Role role,
                                       std::int64_t count) {
  if (count == 0) return nullptr;
  app::RankGroupConfig group;
  group.name = sched::role_name(role);
  group.role = role;
  group.count = count;
  config.ranks.push_back(group);
  return &config.ranks.back();
}

/// Ranks on the null device, as fast as the cost model says.
inline app::SystemConfig null_config(std::int64_t prefill, std::int64_t decode, std::int64_t both) {
  app::SystemConfig config;
  config.ranks.clear();
  add_ranks(config, sched::Role::prefill, prefill);
  add_ranks(config, sched::Role::decode, decode);
  add_ranks(config, sched::Role::both, both);
  for (app::RankGroupConfig& group : config.ranks) {
    group.device = "null";
    group.cost_model.null_speed = 1.0;
  }
  config.kv.memory_bytes = 8LL << 20;
  return config;
}

} // namespace troupe::test
