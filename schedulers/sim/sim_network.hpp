// Carries messages between stages and ranks: delay, loss, slow links and partitions, all seeded.
//
// Messages between the same two nodes keep their order, those of different pairs overtake each
// other.

#pragma once

#include "schedulers/core/rng.hpp"
#include "schedulers/stage/effects.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::sim {

struct NetworkOptions {
  std::int64_t delay_us_min = 1; ///< Both 0: a message arrives at the instant it was sent.
  std::int64_t delay_us_max = 1;
  std::int64_t loss_permille = 0; ///< Of the messages that may_be_lost() names.
};

/// Driver, chunker, balancer and each rank have a number: 0, 1, 2, 3 + rank.
using Node = std::size_t;
constexpr Node node_of(sched::Peer peer, RankId rank) noexcept {
  return peer == sched::Peer::rank ? 3 + raw(rank) : static_cast<Node>(peer);
}

/// Whether the protocol repairs the loss of such a message by itself. Reports are not among them: a
/// lost one means a lost connection, which is a RankDown.
bool may_be_lost(const sched::Message& message);

class SimNetwork {
public:
  SimNetwork(const NetworkOptions& options, std::size_t ranks);

  /// When a message that leaves now arrives; none when it is lost.
  std::optional<std::int64_t> arrival_us(Node from, Node to, const sched::Message& message,
                                         std::int64_t now_us, Rng& rng);
  /// Delay of one hop without an order to keep.
  std::int64_t delay_us(Rng& rng) const;

  // Faults of one node; the last call counts.
  void lose(Node node, std::int64_t permille) { links_[node].loss_permille = permille; }
  void slow_down(Node node, std::int64_t extra_us) { links_[node].extra_us = extra_us; }
  /// Nothing to or from the node arrives before `until_us`.
  void cut(Node node, std::int64_t until_us) { links_[node].cut_until_us = until_us; }

  std::int64_t lost() const noexcept { return lost_; }
  bool loses() const noexcept { return options_.loss_permille > 0; }

private:
  struct Link {
    std::int64_t loss_permille = 0;
    std::int64_t extra_us = 0;
    std::int64_t cut_until_us = 0;
  };

  NetworkOptions options_;
  std::vector<Link> links_;           ///< By node.
  std::vector<std::int64_t> last_us_; ///< [nodes * nodes] Last arrival of each pair.
  std::int64_t lost_ = 0;
};

} // namespace troupe::sim
