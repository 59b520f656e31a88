#include "schedulers/stage/step_flights.hpp"

#include "schedulers/core/check.hpp"
#include "schedulers/model/integer_math.hpp"
#include "schedulers/model/queue_estimate.hpp"
#include "schedulers/stage/preemption.hpp"

#include <utility>

namespace troupe::sched {

void StepFlights::launch(const RunStep& step) {
  TROUPE_CHECK(flights_.size() < kStepsMax, "an engine is given two steps at most");
  TROUPE_CHECK(!step.entries.empty(), "a step has work");
  flights_.push_back({step.step, step.entries, step.tokens()});
}

std::optional<StepFlight> StepFlights::retire(std::uint64_t step) {
  if (flights_.empty() || flights_.front().step != step) return std::nullopt;
  StepFlight flight = std::move(flights_.front());
  flights_.pop_front();
  return flight;
}

void join_step(Sequence& sequence, const StepEntry& entry, std::uint64_t step) {
  ++sequence.in_flight;
  sequence.ahead += entry.count;
  sequence.draws_ahead += entry.draw ? 1 : 0;
  sequence.last_step = step;
}

void leave_step(Sequence& sequence, const StepEntry& entry) {
  TROUPE_CHECK(sequence.in_flight > 0 && sequence.ahead >= entry.count,
               "a sequence leaves a step that it is in");
  --sequence.in_flight;
  sequence.ahead -= entry.count;
  sequence.draws_ahead -= entry.draw ? 1 : 0;
}

OverlapView view_ahead(const StepFlights& flights, const SequenceTable& table,
                       const RankOptions& options, std::int64_t host_us) {
  constexpr std::int64_t kPicosPerMicro = 1'000'000;
  const CostModel& cost = options.cost_model;
  OverlapView view;
  view.device_ps = cost.step_ps;
  view.host_ps = multiply_saturated(host_us, kPicosPerMicro);
  view.plans_held = flights.held();
  for (const Sequence* sequence : table.by_serial()) {
    const bool decodes = wants_token(*sequence);
    if (!decodes && !wants_slice(*sequence)) continue;
    ++view.sequences;
    view.arrivals += sequence->last_step == 0 ? 1 : 0;
    if (!decodes) continue; // How much of a prompt comes is not known before the pull.
    view.device_ps = add_saturated(view.device_ps, cost.decode_load_ps(1, sequence->planned()));
  }
  view.blocks_most = blocks_missing(table, options.block_tokens);
  view.blocks_free = table.blocks().free();
  view.blocks_retiring = blocks_on_their_way(table);
  return view;
}

bool wants_token(const Sequence& sequence) noexcept {
  if (!sequence.decodes()) return false;
  return sequence.draws_ahead == 0 ||
         sequence.answered + sequence.draws_ahead < sequence.new_tokens_max;
}

bool wants_slice(const Sequence& sequence) noexcept {
  return sequence.state == SequenceState::prefilling && !sequence.doomed &&
         sequence.planned() < sequence.total;
}

} // namespace troupe::sched
