// What a stage may ask its shell for: send, timer, step, export, import, emit, record.
//
// A stage only appends; the shell performs the list in order after the handler returns.

#pragma once

#include "schedulers/model/reason.hpp"
#include "schedulers/policy/questions.hpp"
#include "schedulers/stage/expert_protocol.hpp"
#include "schedulers/stage/protocol.hpp"
#include "schedulers/stage/swap_protocol.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace troupe::sched {

using Message =
    std::variant<Submit, Cancel, Ended, Tokens, Load, Assign, Assigned, Refused, RunChunks,
                 RankReport, PrefillDone, Reserve, Reserved, Renew, Pull, TransferDone, Adopt,
                 Adopted, Release, RankUp, RankDown, AnswersExpected, NoRankLeft, SwapPrepare,
                 Prepared, SwapCommit, Committed, SwapAbort, SetRequest, PolicyFault, ExpertLoads,
                 ExpertPlan>;

enum class Peer : std::uint8_t { driver, chunker, balancer, rank, manager, experts };

/// Delivers a message. Messages between the same two peers arrive in order or not at all.
struct Send {
  Peer to = Peer::driver;
  RankId rank{}; ///< For Peer::rank.
  Message message;
};

enum class TimerKind : std::uint8_t {
  deadline,   ///< driver: a request's deadline
  watch,      ///< driver: looks for silent requests
  pull_again, ///< rank: RunChunks did not come
  lease,      ///< rank: a lease may have run out
  renew,      ///< chunker, balancer: leases to prolong
  retry,      ///< chunker, balancer: try what did not fit before
  handoff,    ///< balancer: a handoff step took too long
  swap,       ///< manager: a stage, or a commit, had no answer; others: a set had no commit
  probation,  ///< manager: a window of the guardrails ends
  experts,    ///< rank: counts of experts are due; experts: a plan is due
};

/// Comes back once as a Timer event at or after `due_us`. There is no cancelling: a stage ignores a
/// timer whose reason is gone.
struct SetTimer {
  TimerKind kind{};
  std::uint64_t key = 0;
  std::int64_t due_us = 0;
};

struct Timer {
  TimerKind kind{};
  std::uint64_t key = 0;
};

/// One sequence in a step.
struct StepEntry {
  RequestRef ref;
  StateSlotId slot{};
  std::int64_t first_position = 0;
  std::int64_t count = 0;
  bool draw = false;             ///< Logits of the last row are needed: a token is drawn.
  std::int64_t blocks_first = 0; ///< Block table up to the last position of this step: from here in
  std::int64_t blocks = 0;       ///< RunStep::blocks so many.
  /// The step before, still in flight, works on it too and must succeed on it first. Where that
  /// draws, the token to feed is the one that it draws.
  bool follows = false;
};

/// The next engine step of a rank: ids and counts, no tokens.
struct RunStep {
  std::uint64_t step = 0;
  std::vector<StepEntry> entries;
  ExpertEpoch expert_epoch{};    ///< Map of experts that it runs under.
  bool count_experts = false;    ///< StepDone::expert_counts is wanted.
  std::vector<KvBlockId> blocks; ///< Block tables of the entries, one after the other.

  std::int64_t tokens() const noexcept {
    std::int64_t sum = 0;
    for (const StepEntry& entry : entries)
      sum += entry.count;
    return sum;
  }
  /// @pre one of `entries`
  std::span<const KvBlockId> blocks_of(const StepEntry& entry) const {
    return std::span(blocks).subspan(static_cast<std::size_t>(entry.blocks_first),
                                     static_cast<std::size_t>(entry.blocks));
  }
};

/// Describe and register a finished prefill so that another rank can read it.
struct ExportSequence {
  RequestRef ref;
  StateSlotId slot{};
  std::vector<KvBlockId> blocks;
};

/// Read a sequence from another rank into this slot and these blocks.
struct ImportSequence {
  Pull pull;
  StateSlotId slot{};
  std::vector<KvBlockId> blocks;
};

/// The token log and registered regions of a sequence are no longer needed.
struct Forget {
  RequestRef ref;
};

/// New tokens of a request, in order, without gap or repeat: to the text worker.
struct Emit {
  RequestId request{};
  std::vector<TokenRow> rows;
};

/// The one ending of a request.
struct Finish {
  RequestId request{};
  ErrorCode code = ErrorCode::ok;
  EndReason end = EndReason::none; ///< With code ok; none when a stop string ended it.
  std::string detail;              ///< For a person, when code is not ok.
  std::uint32_t attempts = 1;
  std::int64_t arrival_us = 0;
  std::int64_t first_token_us = 0;
  std::int64_t end_us = 0;
  std::int64_t output_tokens = 0;
  std::int64_t preemptions = 0;
};

/// What the watchdog found: reported, nothing else.
struct Stuck {
  RequestId request{};
  std::string waits_for;
  std::int64_t silent_us = 0;
};

/// A candidate of a decision with its score, or why it was filtered out.
struct Candidate {
  RankId rank{};
  std::int64_t score = 0;
  bool feasible = true;
};

/// Begin a rank's life. The shell answers with RankStarted.
struct StartRank {
  RankRef rank;
};

/// Give up a life that does not return from its work: nothing it does counts any more.
struct AbandonRank {
  RankRef rank;
  std::string detail;
};

/// One decision of one policy, for the ledger.
struct Record {
  std::string kind;   ///< "prefill_router"
  std::string policy; ///< "least_work"
  PolicyEpoch epoch{};
  RequestRef ref; ///< Zero for decisions about many.
  RankRef rank;   ///< Chosen, or the rank a step or pack is for.
  Reason reason = Reason::unset;
  std::int64_t value = 0;       ///< Tokens packed, position in the queue, 0 or 1.
  std::int64_t view_age_us = 0; ///< Of the oldest signal used.
  std::vector<Candidate> candidates;
  std::optional<Asked> asked; ///< None for what nobody had to decide, and for large questions.
  bool too_large = false;     ///< The latter.
};

/// What queue policies learned, for the ledger: replay needs it in order with the questions.
struct Observed {
  QueueObservation observation;
  PolicyEpoch epoch{};
};

/// Where a request is from now on. The milestones of a request, in order, cover its life.
enum class Phase : std::uint8_t {
  waits_for_rank,   ///< driver: admitted, or back for another attempt; in the chunker's queue.
  waits_for_answer, ///< chunker: routed; the rank has not confirmed yet.
  waits_for_step,   ///< chunker: the rank has room for it; no chunk of it has run.
  prefilling,       ///< chunker: its first chunk was sent.
  waits_for_room,   ///< balancer: the prefill is complete; no decode rank was found yet.
  handing_off,      ///< balancer: a decode rank reserves, reads and adopts it.
  decoding,         ///< balancer: it decodes.
  ended,            ///< driver: it is over; `value` is the ErrorCode.
};

/// Stable name, as written to the ledger.
std::string_view phase_name(Phase phase) noexcept;

/// A request enters a phase, for the ledger.
struct Milestone {
  RequestRef ref;
  Phase phase{};
  RankRef rank;           ///< Where, or with waits_for_rank where not; zero: no rank is known.
  std::int64_t value = 0; ///< prefilling: tokens to prefill. ended: the ErrorCode.
  std::string detail;     ///< waits_for_rank, waits_for_room: why what was tried before failed.
};

/// A rank's life begins or is over, as the driver heard it, for the ledger.
struct RankChange {
  RankRef rank;
  Role role = Role::both;
  std::string name; ///< "prefill-0".
  bool up = true;
};

using Effect =
    std::variant<Send, SetTimer, RunStep, ExportSequence, ImportSequence, Forget, Emit, Finish,
                 Stuck, StartRank, AbandonRank, Record, Observed, Milestone, RankChange>;

/// Collects what a handler wants done.
class Effects {
public:
  template <class T>
  void add(T effect) {
    list_.emplace_back(std::move(effect));
  }
  template <class M>
  void send(Peer to, M message) {
    list_.emplace_back(Send{to, RankId{}, std::move(message)});
  }
  /// To the rank a message names.
  template <class M>
  void send_rank(M message) {
    const RankId rank = message.rank.rank;
    list_.emplace_back(Send{Peer::rank, rank, std::move(message)});
  }
  void timer(TimerKind kind, std::uint64_t key, std::int64_t due_us) {
    list_.emplace_back(SetTimer{kind, key, due_us});
  }

  /// So many more are to come.
  void expect(std::size_t count) { list_.reserve(list_.size() + count); }

  std::vector<Effect>& list() noexcept { return list_; }
  const std::vector<Effect>& list() const noexcept { return list_; }
  void clear() noexcept { list_.clear(); }

private:
  std::vector<Effect> list_;
};

} // namespace troupe::sched

/// Made in effects.cpp: what every file with a stage in it would make anew.
extern template class std::vector<troupe::sched::Effect>;
