// Random questions, answers and entries of the ledger: equal seeds, equal entries.

#pragma once

#include "schedulers/core/rng.hpp"
#include "schedulers/policy/questions.hpp"
#include "schedulers/stage/ledger_entry.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe::test {

/// Tame ones keep what policies are promised (ascending ids, times in the past, room that adds up);
/// wild ones hold any bits.
class RandomEntries {
public:
  RandomEntries(std::uint64_t seed, bool wild) : rng_(seed), wild_(wild) {}

  std::uint64_t below(std::uint64_t n) { return rng_.below(n); }
  bool one_in(std::uint64_t n) { return rng_.below(n) == 0; }

  /// In [0, max], often 0 or max; wild: any 64 bits.
  std::int64_t count(std::int64_t max) {
    if (one_in(4)) return 0;
    if (wild_ && one_in(2)) return static_cast<std::int64_t>(rng_.bits());
    return static_cast<std::int64_t>(rng_.below(static_cast<std::uint64_t>(max) + 1));
  }

  std::string text(std::uint64_t bytes_max) {
    std::string out(rng_.below(bytes_max + 1), ' ');
    for (char& c : out)
      c = static_cast<char>(wild_ ? rng_.below(256) : 'a' + rng_.below(26));
    return out;
  }

  RequestRef ref() {
    return {RequestId{1 + rng_.below(1'000'000)},
            Attempt{static_cast<std::uint32_t>(1 + below(3))}};
  }
  RankRef rank_ref() {
    return {RankId{static_cast<std::uint32_t>(below(9))},
            Incarnation{static_cast<std::uint32_t>(1 + below(3))}};
  }

  sched::QuestionContext context() {
    sched::QuestionContext out;
    out.now_us = now_us_ += 1 + count_tame(5'000);
    out.seed = rng_.bits();
    out.epoch = epoch;
    out.step_budget_ps = 1 + count_tame(200'000'000'000);
    out.block_tokens = std::int64_t{1} << below(7);
    if (wild_) out.cost_model.pair_ps = count(1'000'000);
    return out;
  }

  sched::RequestView request() {
    sched::RequestView out;
    out.ref = ref();
    out.session_hash = one_in(3) ? 0 : 1 + below(40);
    out.tenant_hash = mix64(below(5)); // As large as a hash is.
    out.priority = wild_ ? count(9) : static_cast<std::int64_t>(below(7)) - 3;
    out.arrival_us = wild_ ? count(1'000'000) : now_us_ - count_tame(900'000);
    out.deadline_us = one_in(2) ? 0 : now_us_ + count_tame(5'000'000);
    out.prompt = 1 + count_tame(2'000);
    out.answered = one_in(3) ? count_tame(50) : 0;
    out.done = wild_ ? count(50) : count_tame(out.prompt - 1);
    out.new_tokens_max = 1 + out.answered + count_tame(200);
    out.work_ps = count_tame(900'000'000'000);
    out.claim.reservation = static_cast<sched::Reservation>(below(3));
    out.claim.expected_p50 = count(60);
    out.claim.expected_p90 = count(90);
    out.claim.preemptions = count(3);
    if (wild_) {
      for (std::int64_t* field :
           {&out.deadline_us, &out.prompt, &out.answered, &out.new_tokens_max, &out.work_ps})
        *field = count(900);
    }
    return out;
  }

  /// Ascending by reference, without repeats.
  std::vector<sched::RequestView> requests(std::uint64_t most) {
    std::vector<sched::RequestView> out(1 + below(most));
    std::uint64_t id = 1;
    const sched::RequestView like = request();
    for (sched::RequestView& view : out) {
      view = one_in(2) ? request() : like;
      view.ref.request = RequestId{id += 1 + below(1'000)};
    }
    return out;
  }

  sched::RankView rank(std::uint32_t id) {
    sched::RankView out;
    out.rank = {RankId{id}, Incarnation{static_cast<std::uint32_t>(1 + below(3))}};
    out.role = static_cast<sched::Role>(below(3));
    out.draining = one_in(12);
    out.held = one_in(12);
    out.block_tokens = 64;
    out.context_max = one_in(2) ? 0 : 100'000;
    out.kv_blocks_total = 20 + count_tame(200);
    out.kv_blocks_free = wild_ ? count(20) : count_tame(out.kv_blocks_total);
    out.slots_total = 8;
    out.slots_free = count_tame(8);
    out.running = count(20);
    out.context_tokens = count_tame(30'000);
    out.queued = count_tame(9);
    out.queued_tokens = count_tame(9'000);
    out.uncached_tokens = count_tame(9'000);
    out.work_ps = one_in(3) ? 7 : count_tame(900'000'000'000);
    out.as_of_us = wild_ ? count(9'000) : now_us_ - count_tame(20'000);
    if (wild_) {
      for (std::int64_t* field : {&out.block_tokens, &out.slots_free, &out.queued, &out.work_ps,
                                  &out.queued_tokens, &out.uncached_tokens, &out.context_tokens})
        *field = count(900);
    }
    return out;
  }

  std::vector<sched::RankView> ranks() {
    std::vector<sched::RankView> out;
    std::uint32_t id = 0;
    for (std::uint64_t n = 1 + below(7); n > 0; --n)
      out.push_back(rank(id += static_cast<std::uint32_t>(below(3)) + (out.empty() ? 0 : 1)));
    return out;
  }

  void fill(sched::AdmissionQuestion& q) {
    q.context = context();
    q.request = request();
    q.load = {count_tame(90), count_tame(9'000), count_tame(90'000'000'000'000), count_tame(4),
              now_us_ - count_tame(9'000)};
  }
  void fill(sched::QueueQuestion& q) {
    q.context = context();
    q.waiting = requests(12);
  }
  void fill(sched::RouterQuestion& q) {
    q.context = context();
    q.request = request();
    q.ranks = ranks();
    if (!one_in(2)) return;
    for (std::size_t i = 0; i < q.ranks.size(); ++i)
      q.local_hit_tokens.push_back(count_tame(q.request.prompt));
  }
  void fill(sched::ChunkerQuestion& q) {
    q.context = context();
    q.query = {rank_ref(), 1 + count_tame(600)};
    q.requests = requests(8);
  }
  void fill(sched::HandoffQuestion& q) {
    q.context = context();
    q.query.request = request();
    q.query.source = rank_ref();
    q.query.tries = count(3);
    q.query.transfers_of_source = count_tame(2);
    q.query.transfers = q.query.transfers_of_source + count_tame(3);
  }
  void fill(sched::BalancerQuestion& q) {
    q.context = context();
    q.request = request();
    q.source = rank_ref();
    q.ranks = ranks();
  }
  void fill(sched::StepQuestion& q) {
    q.context = context();
    for (std::uint64_t n = below(5); n > 0; --n)
      q.slices.push_back({ref(), count(900), 1 + count_tame(200)});
    for (std::uint64_t n = below(9) + (q.slices.empty() ? 1 : 0); n > 0; --n)
      q.decodes.push_back({ref(), count(900)});
    q.step_tokens_max = 1 + count_tame(500);
  }

  void fill(sched::OverlapQuestion& q) {
    q.context = context();
    for (std::int64_t* field : {&q.view.device_ps, &q.view.host_ps, &q.view.sequences,
                                &q.view.constrained, &q.view.arrivals, &q.view.drafts,
                                &q.view.blocks_most, &q.view.blocks_free, &q.view.blocks_retiring})
      *field = count(90);
    q.view.plans_held = count(2);
  }

  void fill(sched::ExpertQuestion& q) {
    q.context = context();
    q.topology = {static_cast<std::int64_t>(2 + below(14)), 0,
                  static_cast<std::int64_t>(1 + below(4)), 1, 1};
    q.topology.slots = q.topology.experts + q.topology.gpus + count_tame(6);
    q.moves_max = count(9);
    q.costs.layer_ps = count_tame(1'000'000);
    q.costs.steps = count_tame(900);
    const bool begun = !one_in(4);
    for (std::uint64_t n = 1 + below(5); n > 0; --n)
      q.layers.push_back(expert_layer(q.topology, begun));
  }
  sched::ExpertLayer expert_layer(const sched::ExpertTopology& topology, bool begun) {
    sched::ExpertLayer out;
    for (std::int64_t e = one_in(5) ? topology.experts : 0; e < topology.experts; ++e)
      out.loads.push_back(count(900));
    for (std::int64_t i = one_in(2) ? 0 : 2 * topology.experts; i > 0; --i)
      out.steps.push_back(count_tame(90));
    for (std::int64_t slot = begun ? 0 : topology.slots; slot < topology.slots; ++slot)
      out.current.push_back(static_cast<std::int32_t>(slot % topology.experts));
    return out;
  }

  template <class Question>
  Question question() {
    Question out;
    fill(out);
    return out;
  }

  PolicyEpoch epoch{1};

private:
  std::int64_t count_tame(std::int64_t max) {
    return one_in(4) ? 0 : static_cast<std::int64_t>(below(static_cast<std::uint64_t>(max) + 1));
  }

  Rng rng_;
  bool wild_;
  std::int64_t now_us_ = 50'000'000;
};

} // namespace troupe::test
