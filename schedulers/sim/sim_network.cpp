#include "schedulers/sim/sim_network.hpp"

#include <algorithm>
#include <type_traits>
#include <variant>

namespace troupe::sim {

bool may_be_lost(const sched::Message& message) {
  return std::visit(
      [](const auto& m) {
        using M = std::decay_t<decltype(m)>;
        return std::is_same_v<M, sched::Assign> || std::is_same_v<M, sched::Assigned> ||
               std::is_same_v<M, sched::RunChunks> || std::is_same_v<M, sched::PrefillDone> ||
               std::is_same_v<M, sched::Reserve> || std::is_same_v<M, sched::Reserved> ||
               std::is_same_v<M, sched::Renew> || std::is_same_v<M, sched::Pull> ||
               std::is_same_v<M, sched::TransferDone> || std::is_same_v<M, sched::Adopt> ||
               std::is_same_v<M, sched::Adopted> || std::is_same_v<M, sched::Tokens>;
      },
      message);
}

SimNetwork::SimNetwork(const NetworkOptions& options, std::size_t ranks)
    : options_(options), links_(3 + ranks), last_us_((3 + ranks) * (3 + ranks)) {}

std::int64_t SimNetwork::delay_us(Rng& rng) const {
  const std::int64_t spread = options_.delay_us_max - options_.delay_us_min;
  if (spread <= 0) return options_.delay_us_min;
  return options_.delay_us_min +
         static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(spread + 1)));
}

std::optional<std::int64_t> SimNetwork::arrival_us(Node from, Node to,
                                                   const sched::Message& message,
                                                   std::int64_t now_us, Rng& rng) {
  const Link& source = links_[from];
  const Link& target = links_[to];
  const std::int64_t loss =
      std::max({options_.loss_permille, source.loss_permille, target.loss_permille});
  if (loss > 0 && may_be_lost(message) && rng.below(1000) < static_cast<std::uint64_t>(loss)) {
    ++lost_;
    return std::nullopt;
  }
  const std::int64_t leaves_us = std::max({now_us, source.cut_until_us, target.cut_until_us});
  std::int64_t& last_us = last_us_[from * links_.size() + to];
  last_us = std::max(last_us, leaves_us + delay_us(rng) + source.extra_us + target.extra_us);
  return last_us;
}

} // namespace troupe::sim
