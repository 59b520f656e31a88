// All stages wired together over a virtual clock, a slow network and a fake engine.
//
// Messages between the same two peers keep their order, those of different pairs overtake each
// other. The fake engine checks every step against the accounts it keeps itself. The same seed
// gives the same trace.

#pragma once

#include "schedulers/core/rng.hpp"
#include "schedulers/registry/policy_registry.hpp"
#include "schedulers/stage/event.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe::sched::testing {

struct RankSpec {
  Role role = Role::both;
  std::int64_t kv_blocks = 64;
  std::int64_t slots = 8;
  std::int64_t step_tokens_max = 16;
  std::int64_t context_max = 0;
};

struct PipelineOptions {
  std::uint64_t seed = 1;
  std::vector<RankSpec> ranks;
  PolicySet policies;
  DriverOptions driver;
  PrefillOptions prefill;
  DecodeOptions decode;
  CostModel cost_model;
  std::int64_t block_tokens = 4;
  std::int64_t rank_lease_us = 10'000'000;
  std::int64_t delay_us_min = 1;
  std::int64_t delay_us_max = 1;
  int loss_permille = 0; ///< Of the messages that may_be_lost() names.
  int row_failure_permille = 0;
  int step_failure_permille = 0;
  int export_failure_permille = 0;
  int import_failure_permille = 0;
  int damage_permille = 0;      ///< Imports whose bytes arrive wrong.
  int canary_permille = 0;      ///< Draws that lie: the checks of the harness must see them.
  std::int64_t check_every = 1; ///< Events between two looks at all invariants.
};

/// What came out for one request.
struct Outcome {
  std::vector<std::int32_t> tokens;
  std::vector<Finish> endings;
  std::vector<Stuck> stuck;
};

class Pipeline {
public:
  explicit Pipeline(const PipelineOptions& options);
  ~Pipeline();

  /// Starts all ranks at time 0.
  void start();
  void arrive_at(std::int64_t due_us, RequestId request, std::int64_t prompt,
                 std::int64_t new_tokens_max);
  /// The answer of `request` ends by itself after `tokens` (else at its limit).
  void eos_after(RequestId request, std::int64_t tokens) { eos_[request] = tokens; }
  void abandon_at(std::int64_t due_us, RequestId request);
  void stop_at(std::int64_t due_us, RequestId request);
  /// The rank dies, and comes back in its next life after `down_us` (never when negative).
  void kill_at(std::int64_t due_us, RankId rank, std::int64_t down_us);
  /// The rank's engine works no more, and nobody is told.
  void hang_at(std::int64_t due_us, RankId rank);
  /// Drops the next `count` messages of that type (its index in Event).
  template <class M>
  void lose_next(int count) {
    lose_[Event(M{}).index()] += count;
  }

  /// Runs until every request ended and `settle_us` more, or until `limit_us`. Returns whether all
  /// ended. A broken invariant is kept in problem().
  bool run(std::int64_t limit_us, std::int64_t settle_us);
  /// Handles one event; false when there is none.
  bool step();

  /// First broken invariant, or empty.
  const std::string& problem() const noexcept { return problem_; }
  /// What is still held after all requests ended, or empty.
  std::string leftovers() const;

  std::int64_t now_us() const noexcept { return now_us_; }
  std::uint64_t trace_hash() const noexcept { return trace_hash_; }
  std::int64_t events() const noexcept { return events_; }
  std::int64_t messages() const noexcept { return messages_; }
  const std::map<RequestId, Outcome>& outcomes() const noexcept { return outcomes_; }
  const std::vector<Record>& records() const noexcept { return records_; }
  const DriverStage& driver() const noexcept { return *driver_; }
  const PrefillStage& prefill() const noexcept { return *prefill_; }
  const DecodeStage& decode() const noexcept { return *decode_; }
  const RankStage& rank(RankId id) const;
  bool all_ended() const;
  /// Called after every event with the pipeline; for checks of one test.
  std::function<void(const Pipeline&)> after_event;

  /// The token that every engine draws: a function of request and output position only.
  static std::int32_t token_of(RequestId request, std::int64_t index);

private:
  struct FakeSequence {
    Work work;
    std::vector<std::int32_t> drawn;
    std::int64_t positions = 0;
    StateSlotId slot{};
    std::vector<KvBlockId> blocks;
  };
  struct FakeRank {
    RankSpec spec;
    RankRef ref;
    std::unique_ptr<RankStage> stage; ///< Null while the rank is down.
    std::map<RequestRef, FakeSequence> sequences;
    std::map<RequestRef, FakeSequence> exported;
    bool hangs = false;
  };
  /// (kind, rank) of a mailbox.
  using Address = std::pair<Peer, RankId>;
  struct Item {
    Address to;
    Incarnation incarnation{}; ///< Of a rank: mail for an old life is lost.
    Event event;
    std::function<void()> action; ///< Instead of the event.
  };

  void post(std::int64_t due_us, Item item);
  void perform(Effects& effects, Address from, Incarnation incarnation);
  void send(const Send& effect, Address from);
  void perform_other(const Effect& effect, FakeRank& rank);
  void run_step(const RunStep& step, FakeRank& rank);
  StepRow run_entry(const StepEntry& entry, FakeRank& rank);
  void import(const ImportSequence& wanted, FakeRank& rank);
  void emit(const Emit& effect);
  void handle(const Item& item);
  void deliver_to_rank(const Item& item, FakeRank& rank, Effects& effects);
  void start_rank(FakeRank& rank);
  void kill(RankId id, std::int64_t down_us);
  void check();
  void fail(const std::string& what);
  bool chance(int permille) {
    return permille > 0 && rng_.below(1000) < static_cast<std::uint64_t>(permille);
  }
  void hash(std::uint64_t value) { trace_hash_ = mix64(trace_hash_ ^ value); }

  PipelineOptions options_;
  PolicyRegistry registry_;
  Rng rng_;
  std::unique_ptr<DriverStage> driver_;
  std::unique_ptr<PrefillStage> prefill_;
  std::unique_ptr<DecodeStage> decode_;
  std::map<RankId, FakeRank> ranks_;
  std::map<std::pair<std::int64_t, std::uint64_t>, Item> queue_; ///< By (time, order).
  std::map<std::pair<Address, Address>, std::int64_t> last_due_us_;
  std::map<RequestId, Outcome> outcomes_;
  std::map<RequestId, std::int64_t> eos_;
  std::map<std::size_t, int> lose_;
  std::set<RequestId> arrived_;
  std::size_t ended_ = 0;
  std::vector<Record> records_;
  std::string problem_;
  std::int64_t now_us_ = 0;
  std::uint64_t order_ = 0;
  std::uint64_t trace_hash_ = 0;
  std::int64_t events_ = 0;
  std::int64_t messages_ = 0;
};

} // namespace troupe::sched::testing
