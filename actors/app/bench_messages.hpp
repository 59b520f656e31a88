// Cost of our messages against bare CAF, as ratios within one run.

#pragma once

#include <cstdint>
#include <string>

namespace troupe::app {

/// Medians over rounds that alternate between the two sides.
struct MessageBench {
  std::int64_t rounds = 0;
  std::int64_t hops = 0;  ///< Request and response pairs per round.
  double bare_hop_us = 0; ///< Bare CAF, integers.
  double our_hop_us = 0;  ///< RankReport answered by RunChunks, spawned by our helper.
  double bare_rate = 0;   ///< Messages a second into one actor.
  double our_rate = 0;

  double hop_ratio() const noexcept { return our_hop_us / bare_hop_us; }
  double rate_ratio() const noexcept { return our_rate / bare_rate; }
};

MessageBench bench_messages(std::int64_t rounds, std::int64_t hops);

std::string bench_text(const MessageBench& bench);
std::string bench_json(const MessageBench& bench);

} // namespace troupe::app
