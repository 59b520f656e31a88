#include "schedulers/sim/invariants.hpp"

namespace troupe::sim {

void Invariants::decision(const sched::Record& record, std::int64_t now_us) {
  if (record.reason == sched::Reason::unset) fail("decision: no reason, " + record.kind);
  if (record.epoch < bounds_.epoch || record.epoch > live_) {
    fail("decision: another policy epoch, " + record.kind);
  }
  if (record.policy.empty()) fail("decision: no policy, " + record.kind);
  if (record.view_age_us < 0 || record.view_age_us > now_us) {
    fail("decision: a signal of no age, " + record.kind);
  }
}

void Invariants::tokens(Outcome* outcome, const sched::Emit& emit) {
  const std::string of = "request " + std::to_string(raw(emit.request));
  if (outcome == nullptr || !outcome->arrived) {
    fail("token stream: " + of + " never arrived");
    return;
  }
  if (outcome->ended()) fail("one ending: " + of + " goes on after its end");
  const std::uint64_t seed = outcome->plan.seed;
  for (const sched::TokenRow& row : emit.rows) {
    const auto next = static_cast<std::int64_t>(outcome->tokens.size());
    if (row.index != next) {
      fail("token stream: " + of + " token " + std::to_string(row.index) + " where " +
           std::to_string(next) + " was next");
    }
    if (row.token != token_of(bounds_.tokens, seed, next)) {
      fail("token stream: " + of + " token " + std::to_string(next) + " is another");
    }
    if (next >= outcome->plan.answer_length()) {
      fail("token stream: " + of + " has a token beyond its end");
    }
    outcome->tokens.push_back(row.token);
  }
}

void Invariants::ending(Outcome* outcome, const sched::Finish& finish, std::int64_t now_us) {
  const std::string of = "request " + std::to_string(raw(finish.request));
  if (outcome == nullptr || !outcome->arrived) {
    fail("one ending: " + of + " ended and never arrived");
    return;
  }
  if (outcome->ended()) fail("one ending: " + of + " ended twice");
  outcome->endings.push_back(finish);
  const auto tokens = static_cast<std::int64_t>(outcome->tokens.size());
  if (finish.output_tokens != tokens) {
    fail("token stream: " + of + " counts " + std::to_string(finish.output_tokens) + " of " +
         std::to_string(tokens) + " tokens");
  }
  const bool complete = finish.code == ErrorCode::ok && finish.end != sched::EndReason::none;
  if (complete && tokens != outcome->plan.answer_length()) {
    fail("token stream: " + of + " is complete with " + std::to_string(tokens) + " of " +
         std::to_string(outcome->plan.answer_length()) + " tokens");
  }
  const bool ordered =
      finish.arrival_us >= outcome->plan.at_us && finish.end_us == now_us &&
      finish.arrival_us <= finish.end_us &&
      (tokens == 0 ||
       (finish.arrival_us <= finish.first_token_us && finish.first_token_us <= finish.end_us &&
        outcome->assigned_us >= 0 && outcome->assigned_us <= finish.first_token_us));
  if (!ordered) fail("causality: " + of + " has times out of order");
  if (finish.attempts < 1 || finish.attempts > bounds_.attempts_max) {
    fail("bounds: " + of + " had " + std::to_string(finish.attempts) + " attempts");
  }
}

void Invariants::ascending(std::int64_t before_us, std::int64_t now_us) {
  if (now_us < before_us) fail("clock: it ran backwards");
}

void Invariants::rank(const SimRank& rank, std::int64_t kv_blocks, std::int64_t slots) {
  const sched::RankCounts& counts = rank.stage().counts();
  const bool positive = counts.kv_blocks_free >= 0 && counts.kv_blocks_reserved >= 0 &&
                        counts.slots_free >= 0 && counts.slots_reserved >= 0;
  if (!positive || counts.kv_blocks_free + counts.kv_blocks_reserved != kv_blocks ||
      counts.slots_free + counts.slots_reserved != slots) {
    fail("conservation: " + rank.options().name + " has " + std::to_string(counts.kv_blocks_free) +
         " + " + std::to_string(counts.kv_blocks_reserved) + " of " + std::to_string(kv_blocks) +
         " blocks, " + std::to_string(counts.slots_free) + " + " +
         std::to_string(counts.slots_reserved) + " of " + std::to_string(slots) + " slots");
  }
  if (rank.stage().sequences() != counts.slots_reserved) {
    fail("conservation: " + rank.options().name + " has sequences without a slot");
  }
}

void Invariants::walk(const SimRank& rank) {
  const Status status = rank.stage().check();
  if (!status.ok()) fail("conservation: " + rank.options().name + ": " + status.error().message);
}

void Invariants::stages(const sched::DriverCounts& driver, const sched::PrefillCounts& prefill,
                        const sched::DecodeCounts& decode, std::int64_t arrived) {
  if (driver.accepted != driver.live + driver.finished + driver.failed + driver.cancelled ||
      arrived != driver.accepted + driver.rejected) {
    fail("conservation: requests that arrived, live and ended do not add up");
  }
  if (driver.live < 0 || driver.live > bounds_.requests_max) fail("bounds: requests_max");
  if (prefill.waiting < 0 || prefill.waiting > bounds_.queue_max) fail("bounds: queue_max");
  if (decode.waiting < 0 || decode.waiting > bounds_.waiting_max) fail("bounds: waiting_max");
  if (decode.handing_off < 0 || decode.decoding < 0) fail("bounds: a negative count");
}

void Invariants::work(std::int64_t waiting, std::int64_t held, std::int64_t ranks, bool faulty,
                      std::int64_t now_us) {
  if (bounds_.idle_us_max <= 0 || waiting == 0 || held > 0 || ranks == 0 || faulty) {
    idle_since_us_ = -1;
    return;
  }
  if (idle_since_us_ < 0) idle_since_us_ = now_us;
  if (now_us - idle_since_us_ > bounds_.idle_us_max) {
    fail("work conservation: " + std::to_string(waiting) + " requests wait and no rank works");
  }
}

} // namespace troupe::sim
