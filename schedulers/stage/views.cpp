#include "schedulers/stage/views.hpp"

#include "schedulers/core/hash.hpp"
#include "schedulers/core/rng.hpp"
#include "schedulers/stage/rank_stage.hpp"

namespace troupe::sched {

RequestView view_of(const Submit& message) {
  RequestView view;
  view.ref = message.ref;
  // A client without a name is a session for each of its requests.
  view.session_hash =
      message.tenant.empty() ? mix64(raw(message.ref.request) + 1) : hash64(message.tenant);
  view.arrival_us = message.arrival_us;
  view.deadline_us = message.deadline_us;
  view.prompt = static_cast<std::int64_t>(message.work.prompt.size());
  view.answered = static_cast<std::int64_t>(message.work.answered.size());
  view.new_tokens_max = message.work.new_tokens_max;
  view.claim = message.claim;
  return view;
}

RequestView view_of(const Assign& message) {
  RequestView view;
  view.ref = message.ref;
  view.arrival_us = message.arrival_us;
  view.prompt = static_cast<std::int64_t>(message.work.prompt.size());
  view.answered = static_cast<std::int64_t>(message.work.answered.size());
  view.new_tokens_max = message.work.new_tokens_max;
  view.claim = message.claim;
  return view;
}

RequestView view_of(const PrefillDone& message) {
  RequestView view;
  view.ref = message.ref;
  view.arrival_us = message.arrival_us;
  // new_tokens_max counts the whole answer; what is left of the prompt is the difference.
  view.prompt = message.positions_max - message.new_tokens_max;
  view.answered = message.answered;
  view.done = view.total();
  view.new_tokens_max = message.new_tokens_max;
  view.claim = message.claim;
  return view;
}

RequestView view_of(const Reserve& message) {
  RequestView view;
  view.ref = message.ref;
  view.arrival_us = message.arrival_us;
  view.prompt = message.positions_max - message.new_tokens_max;
  view.answered = message.answered;
  view.new_tokens_max = message.new_tokens_max;
  view.claim = message.claim;
  return view;
}

RankView empty_rank(const RankOptions& options) {
  RankView view;
  view.rank = options.rank;
  view.role = options.role;
  view.block_tokens = options.block_tokens;
  view.context_max = options.context_max;
  view.kv_blocks_free = view.kv_blocks_total = options.kv_blocks;
  view.slots_free = view.slots_total = options.slots;
  return view;
}

} // namespace troupe::sched
