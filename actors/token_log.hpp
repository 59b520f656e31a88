// The tokens of every sequence on a rank, and when a sequence ends.
//
// The stage counts; this joins counts with tokens. Positions run over prompt, tokens answered in
// earlier attempts, tokens drawn here; the last one drawn is not fed yet.

#pragma once

#include "schedulers/core/ids.hpp"
#include "schedulers/core/recent.hpp"
#include "schedulers/stage/protocol.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace troupe::actors {

/// One sequence.
struct SequenceLog {
  sched::Work work;
  std::vector<std::int32_t> drawn; ///< In this attempt, on whatever rank.
  bool ended = false;              ///< The last one ended it.

  std::int64_t answered() const noexcept {
    return static_cast<std::int64_t>(work.answered.size() + drawn.size());
  }
  std::int64_t tokens() const noexcept {
    return work.prefill_tokens() + static_cast<std::int64_t>(drawn.size());
  }
  std::int32_t token_at(std::int64_t position) const;
};

/// Log of all sequences of one rank. Thread: one owner.
class TokenLog {
public:
  explicit TokenLog(std::vector<std::int32_t> eos_ids) : eos_ids_(std::move(eos_ids)) {}

  void put(RequestRef ref, SequenceLog log);
  void forget(RequestRef ref);
  const SequenceLog* find(RequestRef ref) const;

  /// Appends a drawn token and says whether the sequence ends with it. @pre the sequence is known
  /// and has not ended
  sched::EndReason draw(RequestRef ref, std::int32_t token);

  /// Ids that may not be drawn when `answered` tokens are: end and stop ids until new_tokens_min.
  void suppressed(const SequenceLog& log, std::int64_t answered,
                  std::vector<std::int32_t>& out) const;

  std::size_t size() const noexcept { return sequences_.size(); }

private:
  SequenceLog* look(const RequestRef& ref) const;
  sched::EndReason end_of(const SequenceLog& log, std::int32_t token) const;

  std::vector<std::int32_t> eos_ids_;
  std::map<RequestRef, SequenceLog> sequences_;
  mutable Recent<SequenceLog> recent_; ///< Each sequence of each step is looked for several times.
};

} // namespace troupe::actors
