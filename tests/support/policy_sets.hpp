// Policy sets made in code, and questions to ask of them.

#pragma once

#include "schedulers/policy/questions.hpp"
#include "schedulers/registry/policy_set.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace troupe::sched::testing {

/// A set that chooses `kinds`; without a probation.
inline PolicySet set_of(std::string name, const std::map<std::string, std::string>& kinds) {
  PolicySet set;
  set.name = std::move(name);
  for (const auto& [kind, policy] : kinds)
    set.kinds[kind].policy = policy;
  set.probation.window_us = 0;
  return set;
}

/// weighted_fair with the weight of tenant "a".
inline PolicySet fair_set(std::string name, double weight_of_a) {
  PolicySet set = set_of(std::move(name), {{"queue", "weighted_fair"}});
  set.kinds["queue"].options = OptionTable("queue");
  set.kinds["queue"].options.set("weights.a", {weight_of_a, ""});
  return set;
}

inline HandoffQuestion handoff_question(std::uint64_t session_hash = 0) {
  HandoffQuestion question;
  question.context.seed = 5;
  question.query.request.ref = {RequestId{1}, Attempt{1}};
  question.query.request.session_hash = session_hash;
  question.query.request.prompt = 8;
  question.query.request.new_tokens_max = 4;
  return question;
}

/// Of a request that needs one kv block, to `ranks` decode ranks with room.
inline BalancerQuestion balancer_question(std::uint32_t ranks, std::uint64_t seed = 5,
                                          std::uint64_t session_hash = 0) {
  BalancerQuestion question;
  question.context.seed = seed;
  question.request = handoff_question(session_hash).query.request;
  for (std::uint32_t i = 0; i < ranks; ++i) {
    RankView view;
    view.rank = {RankId{i}, Incarnation{1}};
    view.role = Role::decode;
    view.block_tokens = 64;
    view.kv_blocks_free = view.kv_blocks_total = 100;
    view.slots_free = view.slots_total = 100;
    question.ranks.push_back(view);
  }
  return question;
}

} // namespace troupe::sched::testing
