#include "schedulers/stage/views.hpp"

#include "schedulers/core/hash.hpp"
#include "schedulers/core/rng.hpp"
#include "schedulers/stage/rank_stage.hpp"
#include "schedulers/stage/sequence_table.hpp"

#include <utility>

namespace troupe::sched {

namespace {

/// What every message about a request says of it.
template <class Message>
RequestView common_view(const Message& message) {
  RequestView view;
  view.ref = message.ref;
  view.arrival_us = message.arrival_us;
  view.claim = message.claim;
  return view;
}

/// Of a message that carries the request's work.
template <class Message>
RequestView view_with_work(const Message& message) {
  RequestView view = common_view(message);
  view.prompt = static_cast<std::int64_t>(message.work.prompt.size());
  view.answered = static_cast<std::int64_t>(message.work.answered.size());
  view.new_tokens_max = message.work.new_tokens_max;
  return view;
}

/// Of a message that carries lengths only.
template <class Message>
RequestView view_with_lengths(const Message& message) {
  RequestView view = common_view(message);
  // new_tokens_max counts the whole answer; what is left of the positions is the prompt.
  view.prompt = message.positions_max - message.new_tokens_max;
  view.answered = message.answered;
  view.new_tokens_max = message.new_tokens_max;
  return view;
}

} // namespace

RequestView view_of(const Submit& message) {
  RequestView view = view_with_work(message);
  view.tenant_hash = hash64(message.tenant);
  // A client without a name is a session for each of its requests.
  view.session_hash = message.session_hash != 0 ? message.session_hash
                      : message.tenant.empty()  ? mix64(raw(message.ref.request) + 1)
                                                : view.tenant_hash;
  view.priority = message.priority;
  view.deadline_us = message.deadline_us;
  return view;
}

RequestView view_of(const Assign& message) { return view_with_work(message); }

RequestView view_of(const PrefillDone& message) {
  RequestView view = view_with_lengths(message);
  view.session_hash = message.session_hash;
  view.done = view.total();
  return view;
}

RequestView view_of(const Reserve& message) { return view_with_lengths(message); }

PrefillDone prefill_done_of(const Sequence& sequence, const RankOptions& options,
                            std::string manifest) {
  PrefillDone done;
  done.ref = sequence.ref;
  done.rank = options.rank;
  done.positions = sequence.positions;
  done.positions_max = sequence.positions_max;
  done.answered = sequence.answered;
  done.new_tokens_max = sequence.new_tokens_max;
  done.arrival_us = sequence.arrival_us;
  done.claim = sequence.claim;
  done.session_hash = sequence.session_hash;
  done.lease_us = options.lease_us;
  done.in_place = decodes(options.role);
  done.manifest = std::move(manifest);
  return done;
}

void begin_prefill(Sequence& sequence, const Assign& message) {
  const Work& work = message.work;
  sequence.total = work.prefill_tokens();
  sequence.positions_max = work.positions_max();
  sequence.answered = static_cast<std::int64_t>(work.answered.size());
  sequence.new_tokens_max = work.new_tokens_max;
  sequence.arrival_us = message.arrival_us;
  sequence.claim = message.claim;
  sequence.session_hash = message.session_hash;
  sequence.renewed = message.lease_us > 0;
}

std::optional<Ended> lost_with_lease(const Sequence& sequence, RankRef rank) {
  if (sequence.state == SequenceState::prefilling) {
    return Ended{sequence.ref, ErrorCode::rank_lost, true, "its prefill was not renewed in time",
                 rank};
  }
  if (sequence.state == SequenceState::finished) {
    return Ended{sequence.ref, ErrorCode::transfer_failed, true,
                 "no decode rank took the finished prefill over in time", rank};
  }
  return std::nullopt;
}

RankUp rank_up(const RankOptions& options) {
  return {options.rank,
          options.role,
          options.name,
          options.kv_blocks,
          options.block_tokens,
          options.slots,
          options.step_tokens_max,
          options.context_max};
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
