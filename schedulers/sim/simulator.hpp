// All stages of a system over virtual time: a network, ranks with a cost model, faults.
//
// The same options and seed give the same trace. A delay of 0 delivers messages at the instant they
// were sent, to one receiver after the other, all its mail at a time: as actors in virtual time.

#pragma once

#include "schedulers/registry/policy_registry.hpp"
#include "schedulers/sim/canary.hpp"
#include "schedulers/sim/event_queue.hpp"
#include "schedulers/sim/faults.hpp"
#include "schedulers/sim/invariants.hpp"
#include "schedulers/sim/outcomes.hpp"
#include "schedulers/sim/report.hpp"
#include "schedulers/sim/sim_network.hpp"
#include "schedulers/sim/sim_rank.hpp"
#include "schedulers/stage/ledger_entry.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::sim {

/// A set that every stage and live rank is told to prepare and commit at one instant.
struct SimSwap {
  std::int64_t at_us = 0;
  sched::PolicySet set; ///< Its epoch is given by the run. Its answers are not made bad.
  std::string reason;
};

/// Everything a run is made of, besides its requests. Seeds and cost models of the stages are
/// taken as they are.
struct SimOptions {
  std::uint64_t seed = 1;
  std::vector<sched::RankOptions> ranks; ///< Ids count from 0, in their first life.
  sched::PolicySet policies;
  sched::DriverOptions driver;
  sched::PrefillOptions prefill;
  sched::DecodeOptions decode;
  std::int64_t start_us = 0; ///< When the ranks come up.
  NetworkOptions network;
  EngineOptions engine;
  std::vector<Fault> faults;
  std::vector<SimSwap> swaps;             ///< Ascending by time.
  std::int64_t bad_decision_permille = 0; ///< Of every policy's answers.
  std::int64_t walk_every = 1;            ///< Events between two walks over all blocks.
  std::int64_t idle_us_max = 0;           ///< See Bounds.
  bool keep_records = true;               ///< Decisions, and all that a ledger keeps, for tests.
  Targets targets;
  Canary canary = Canary::none;
  std::int64_t canary_after = 1; ///< The bug happens at the n-th place that fits.
  /// Sees every event before its stage does; may be empty.
  std::function<void(Node, const sched::Event&, std::int64_t now_us)> tap;
  /// Adds policies of a test to the registry; may be empty.
  std::function<void(sched::PolicyRegistry&)> more_policies;
};

/// A decision and when it was made.
struct TimedRecord {
  std::int64_t now_us = 0;
  sched::Record record;
};

class Simulator {
public:
  /// @pre the policies exist and accept their options; rank ids count from 0
  Simulator(const SimOptions& options, const std::vector<RequestPlan>& requests);
  ~Simulator();
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  /// Runs until every request ended and `settle_us` more, or until `limit_us`. True when all ended
  /// and no invariant broke.
  bool run(std::int64_t limit_us, std::int64_t settle_us);
  /// Handles one event; false when there is none.
  bool step();

  /// First broken invariant with its time, or empty.
  std::string problem() const;
  /// What is still held after all requests ended, or empty.
  std::string leftovers() const;
  bool all_ended() const noexcept { return ended_ == outcomes_.all().size(); }
  /// Ended requests, messages, times, decisions of the run so far.
  Report report() const;

  std::int64_t now_us() const noexcept { return now_us_; }
  std::int64_t events() const noexcept { return events_; }
  std::int64_t messages() const noexcept { return messages_; }
  std::int64_t pending_mean() const noexcept { return events_ == 0 ? 0 : pending_ / events_; }
  std::uint64_t trace_hash() const noexcept { return trace_hash_; }
  /// Two runs that are the same have drawn the same number of draws. Costs a draw.
  std::uint64_t final_draw() { return world_.rng.bits(); }
  const Outcomes& outcomes() const noexcept { return outcomes_; }
  const std::vector<TimedRecord>& records() const noexcept { return records_; }
  /// As a ledger of the run holds them. A request N is named "request-N".
  const std::vector<sched::LedgerEntry>& entries() const noexcept { return entries_; }
  const sched::DriverStage& driver() const noexcept { return *driver_; }
  const sched::PrefillStage& prefill() const noexcept { return *prefill_; }
  const sched::DecodeStage& decode() const noexcept { return *decode_; }
  /// The rank's current life; null while it is down.
  const SimRank* rank(RankId id) const;

private:
  enum class What : std::uint8_t { event, arrives, fault_begins, fault_ends, given_up, born, swap };
  struct Mail {
    What what = What::event;
    Node to = 0;
    Incarnation incarnation{}; ///< Of a rank: mail for a life that ended is lost.
    std::size_t number = 0;    ///< Of the request, fault or swap that the other kinds are about.
    sched::Event event = sched::Timer{};
  };
  struct Life {
    SimRank rank;
    Incarnation incarnation{};
    bool paused = false;
    bool full = false;
    std::deque<Mail> held; ///< Came while it stood still.
  };
  struct Place {
    sched::RankOptions options;
    Incarnation incarnation{};                   ///< Of its newest life.
    std::unique_ptr<Life> life;                  ///< Null while it is down.
    bool for_good = false;                       ///< No other life will come.
    std::vector<std::unique_ptr<Life>> given_up; ///< Former lives that do not know it yet.
    std::int64_t blocks_held = 0;
    std::int64_t sequences = 0;
  };

  void post(std::int64_t due_us, Mail mail);
  void put_in_box(Mail mail);
  bool take_next(Mail& mail);
  void handle(Mail& mail);
  void handle_rank(Mail& mail);
  void handle_stage(Mail& mail);
  void control(const Mail& mail);
  void fault_begins(std::size_t number);
  void fault_ends(std::size_t number);
  void start_life(Place& place);
  void end_life(Place& place);
  void tell_when_no_rank_is_left(std::int64_t after_us);
  void give_up(Place& place);
  void tell_gone(RankRef rank, std::int64_t after_us, bool comes_back);
  void wake(Node node, Life& life);
  bool refuse_full(const Mail& mail, const Life& life);

  void perform(Node from, Life* life);
  void perform_rank(sched::Effect& effect, Node from, Life& life);
  void send(sched::Send& effect, Node from);
  void answer(EngineAnswer answer, Node node, Incarnation incarnation);
  void take_record(sched::Record& record, Node from, const Life* life);
  void swap(const SimSwap& wanted);
  /// Keeps what a ledger would.
  template <class T>
  void keep(Node from, const Life* life, T what) {
    if (!options_.keep_records) return;
    entries_.push_back({entries_.size() + 1, now_us_, stage_of(from, life), std::move(what)});
  }
  sched::StageRef stage_of(Node from, const Life* life) const;
  void take_arrivals(std::size_t number);
  void take_arrival(std::size_t number);
  void post_next_arrival();
  void take_finish(const sched::Finish& finish);

  Life* find_life(Node node, Incarnation incarnation);
  void look(Node node);
  void account(Place& place);
  void hash(std::uint64_t value) noexcept { trace_hash_ = mix64(trace_hash_ ^ value); }

  SimOptions options_;
  sched::PolicyRegistry registry_;
  sched::PolicySet policies_; ///< As the stages get it.
  EngineWorld world_;
  SimNetwork network_;
  Outcomes outcomes_;
  Invariants invariants_;
  std::unique_ptr<sched::DriverStage> driver_;
  std::unique_ptr<sched::PrefillStage> prefill_;
  std::unique_ptr<sched::DecodeStage> decode_;
  std::vector<Place> places_;
  EventQueue<Mail> queue_;
  bool immediate_ = false;
  std::vector<std::deque<Mail>> boxes_; ///< By node, with a delay of 0.
  std::deque<Node> turns_;              ///< Nodes with mail, next one first.
  Node busy_ = static_cast<Node>(-1);   ///< Whose event is being handled.
  sched::Effects effects_;
  std::vector<TimedRecord> records_;
  std::vector<sched::LedgerEntry> entries_;
  Tally tally_;
  std::vector<std::size_t> arrivals_; ///< Requests by arrival, latest first.
  std::size_t ended_ = 0;
  std::int64_t arrived_ = 0;
  std::int64_t faults_active_ = 0;
  std::int64_t now_us_ = 0;
  std::int64_t events_ = 0;
  std::int64_t messages_ = 0;
  std::int64_t pending_ = 0;
  std::int64_t sequences_ = 0; ///< On all live ranks.
  std::int64_t live_ranks_ = 0;
  std::uint64_t trace_hash_ = 0;
  std::int64_t canary_countdown_ = 0;
};

} // namespace troupe::sim
