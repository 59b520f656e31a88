#include "schedulers/sim/canary.hpp"

#include <utility>
#include <variant>
#include <vector>

namespace troupe::sim {

using namespace sched;

namespace {

bool spoil_tokens(Canary canary, Emit& emit) {
  switch (canary) {
  case Canary::wrong_token:
    ++emit.rows.front().token;
    return true;
  case Canary::lost_token:
    emit.rows.erase(emit.rows.begin());
    return true;
  case Canary::doubled_token:
    emit.rows.insert(emit.rows.begin(), TokenRow(emit.rows.front()));
    return true;
  default:
    return false;
  }
}

bool spoil_record(Canary canary, Record& record) {
  if (canary == Canary::no_reason) record.reason = Reason::unset;
  if (canary == Canary::wrong_epoch) record.epoch = next(record.epoch);
  return canary == Canary::no_reason || canary == Canary::wrong_epoch;
}

bool spoil_step(Canary canary, RunStep& step) {
  if (canary == Canary::foreign_block && step.entries.size() >= 2) {
    const auto last =
        static_cast<std::size_t>(step.entries[0].blocks_first + step.entries[0].blocks - 1);
    step.blocks[last] = step.blocks_of(step.entries[1]).front();
    return true;
  }
  if (canary == Canary::skipped_chunk && step.entries.front().count >= 2) {
    ++step.entries.front().first_position;
    --step.entries.front().count;
    return true;
  }
  return false;
}

/// Whether the effect is one that the canary spoils; `again` asks for it a second time, `drop` for
/// it to be left out.
bool fits(Canary canary, Effect& effect, std::int64_t& countdown, bool& again, bool& drop) {
  const bool last = countdown == 1;
  const auto* finish = std::get_if<Finish>(&effect);
  const bool ends = canary == Canary::second_ending || canary == Canary::lost_ending ||
                    canary == Canary::early_ending;
  if (ends && finish != nullptr) {
    again = last && canary == Canary::second_ending;
    drop = last && canary == Canary::lost_ending;
    if (last && canary == Canary::early_ending) --std::get<Finish>(effect).end_us;
    return true;
  }
  if (canary == Canary::kept_log && std::holds_alternative<Forget>(effect)) {
    drop = last;
    return true;
  }
  Effect copy = effect;
  bool fitted = false;
  if (auto* emit = std::get_if<Emit>(&copy)) fitted = spoil_tokens(canary, *emit);
  if (auto* record = std::get_if<Record>(&copy)) fitted = spoil_record(canary, *record);
  if (auto* step = std::get_if<RunStep>(&copy)) fitted = spoil_step(canary, *step);
  if (fitted && last) effect = std::move(copy);
  return fitted;
}

} // namespace

void spoil(Canary canary, std::int64_t& countdown, Effects& effects) {
  std::vector<Effect> out;
  for (Effect& effect : effects.list()) {
    bool again = false;
    bool drop = false;
    if (countdown > 0 && fits(canary, effect, countdown, again, drop)) --countdown;
    if (again) out.push_back(effect);
    if (!drop) out.push_back(std::move(effect));
  }
  effects.list() = std::move(out);
}

} // namespace troupe::sim
