// The sequences of one rank with their kv blocks and state slots: who owns what, and since when.
//
// Each sequence owns its slot and its promise from the first moment. A promise of the worst case
// lets it go on to its end; a smaller one is extended block by block, or the sequence preempted.

#pragma once

#include "schedulers/core/digest.hpp"
#include "schedulers/core/recent.hpp"
#include "schedulers/kv/block_pool.hpp"
#include "schedulers/kv/block_table.hpp"
#include "schedulers/kv/slot_pool.hpp"
#include "schedulers/stage/effects.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace troupe::sched {

/// States of a sequence on a rank, in order. Left: of the rank that prefills it; right: of the rank
/// it moves to.
enum class SequenceState : std::uint8_t {
  prefilling, ///< Chunks of its prompt are computed.
  exporting,  ///< Prefill complete; the engine describes it.
  finished,   ///< Kept under a lease until somebody adopts or releases it.
  reserved,   ///< Room for a sequence that is elsewhere, under a lease.
  importing,  ///< The engine reads it.
  imported,   ///< Complete here, not ours yet; under the lease.
  decoding,   ///< Ours until it ends.
};

inline constexpr std::int64_t kRenewShare = 3; ///< Leases are renewed that often while they last.

struct Sequence {
  RequestRef ref;
  std::uint64_t serial = 0; ///< Of this life on the rank: key of its lease timer.
  SequenceState state = SequenceState::prefilling;
  StateSlotId slot{};
  BlockTable blocks;
  std::int64_t total = 0;     ///< Tokens to prefill.
  std::int64_t positions = 0; ///< Tokens held, as far as steps have ended.
  std::int64_t positions_max = 0;
  std::int64_t answered = 0; ///< Output tokens so far; the last one is not fed yet.
  std::int64_t new_tokens_max = 0;
  std::int64_t arrival_us = 0; ///< Of the request's first attempt.
  std::uint64_t session_hash = 0;
  Claim claim;
  HandoffId handoff{};
  Digest digest;                   ///< Of what was imported.
  std::int64_t lease_until_us = 0; ///< In the states under a lease.
  std::int64_t lease_timer_us = 0; ///< When a timer looks at it; 0 = none is under way.
  bool lease_stretched = false;    ///< Its lease was stretched since it was last renewed.
  bool renewed = false;            ///< The chunker keeps a lease on its prefill.
  std::uint64_t last_step = 0;
  std::int64_t in_flight = 0;   ///< Steps in flight that work on it.
  std::int64_t ahead = 0;       ///< Tokens that those add to `positions`, if they go well.
  std::int64_t draws_ahead = 0; ///< Tokens that those draw.
  bool engine = false;          ///< An export or import is under way.
  bool doomed = false;          ///< Given up; freed as soon as nothing works on it.

  /// Tokens it holds once the steps in flight have ended: where the next one begins.
  std::int64_t planned() const noexcept { return positions + ahead; }

  void renew(std::int64_t until_us) noexcept {
    lease_until_us = until_us;
    lease_stretched = false;
  }
  /// What its lease timer decides. A timer that comes late was held up with all other mail, and
  /// renewals may wait behind it, so that once, until one comes, the lease goes on for as long as
  /// a renewal takes.
  bool lease_goes_on(std::int64_t now_us, std::int64_t lease_us) noexcept {
    if (now_us < lease_until_us) return true;
    const bool late = lease_timer_us != 0 && now_us > lease_timer_us;
    if (!late || lease_stretched) return false;
    lease_stretched = true;
    lease_until_us = now_us + lease_us / kRenewShare;
    return true;
  }

  bool decodes() const noexcept { return state == SequenceState::decoding && !doomed; }
  /// Ours, with nothing working on it, and not protected. Room for a handoff is not ours yet.
  bool preemptible() const noexcept {
    const bool ours = state == SequenceState::prefilling || state == SequenceState::decoding ||
                      state == SequenceState::finished;
    return ours && claim.reservation == Reservation::expected && !doomed && in_flight == 0 &&
           !engine;
  }
  bool leased() const noexcept {
    if (state == SequenceState::prefilling) return renewed;
    return state != SequenceState::exporting && state != SequenceState::decoding;
  }
};

class SequenceTable {
public:
  SequenceTable(std::int64_t kv_blocks, std::int64_t slots) : blocks_(kv_blocks), slots_(slots) {}

  /// A new sequence with a slot and `blocks` promised blocks, or null when there is no room.
  /// @pre no sequence of that ref is here
  Sequence* add(const RequestRef& ref, std::int64_t blocks);

  /// Promises `sequence` that many more blocks; false, and no change, when they are not free.
  [[nodiscard]] bool extend(Sequence& sequence, std::int64_t blocks) {
    if (!blocks_.reserve(blocks)) return false;
    sequence.blocks.promise(blocks);
    return true;
  }

  /// Gives up a sequence. It is freed at once, or, while the engine works on it, marked doomed.
  /// Returns whether it is gone.
  bool drop(Sequence& sequence);
  /// Frees a doomed sequence that nothing works on any more. Returns whether it is gone.
  bool settle(Sequence& sequence);

  /// Null when unknown; doomed sequences are found by find_any() only. Cost: O(1) for those that
  /// were looked for lately.
  Sequence* find(const RequestRef& ref);
  Sequence* find_any(const RequestRef& ref);
  Sequence* find_serial(std::uint64_t serial);

  /// Takes promised blocks so that `sequence` can hold `positions`.
  void grow(Sequence& sequence, std::int64_t positions, std::int64_t block_tokens) {
    sequence.blocks.grow(blocks_needed(positions, block_tokens), blocks_);
  }

  const std::map<RequestRef, Sequence>& all() const noexcept { return sequences_; }
  /// The same ascending by Sequence::serial: quicker to walk over.
  const std::vector<Sequence*>& by_serial() const noexcept { return by_serial_; }
  /// Sequences that decode. Cost: O(sequences).
  std::int64_t decoding() const noexcept;
  const BlockPool& blocks() const noexcept { return blocks_; }
  const SlotPool& slots() const noexcept { return slots_; }

  /// Both pools agree with the sequences: no block or slot without owner, none with two.
  Status check() const;

private:
  static std::int64_t blocks_needed(std::int64_t positions, std::int64_t block_tokens) {
    return positions <= 0 ? 0 : (positions - 1) / block_tokens + 1;
  }

  /// The end when there is none of that serial.
  std::vector<Sequence*>::iterator place_of(std::uint64_t serial);

  BlockPool blocks_;
  SlotPool slots_;
  std::map<RequestRef, Sequence> sequences_;
  std::vector<Sequence*> by_serial_;
  Recent<Sequence> recent_;
  std::uint64_t serial_ = 0;
};

} // namespace troupe::sched
