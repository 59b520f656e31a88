// Why a policy decided as it did; every decision carries one, also "none fits".

#pragma once

#include <cstdint>
#include <string_view>

namespace troupe::sched {

enum class Reason : std::uint8_t {
  unset = 0,        ///< A decision without a reason is invalid.
  only_choice,      ///< One candidate was left.
  lowest_score,     ///< Best score of several.
  tie_lowest_id,    ///< Equal scores; the lower id wins.
  next_in_turn,     ///< Round robin.
  drawn,            ///< A draw of the seeded generator.
  better_of_two,    ///< The better of two that were drawn.
  by_session,       ///< Where the requests of its session go.
  cached_there,     ///< The rank holds part of the prompt already.
  held_back,        ///< It waits for a better moment; asked again at retry_at_us.
  in_place,         ///< The rank that holds the KV decodes too.
  admitted,         ///< Nothing speaks against it.
  meets_deadline,   ///< The estimate is inside the deadline.
  misses_deadline,  ///< The estimate is beyond the deadline.
  no_target,        ///< There is no deadline to miss.
  within_budget,    ///< All of it fits the budget.
  budget_reached,   ///< Cut where the budget ends.
  budget_too_small, ///< Not even one token fits.
  nothing_to_do,    ///< No candidate work.
  no_room,          ///< Every rank lacks blocks or slots.
  no_rank,          ///< There is no rank of the role.
  in_order,         ///< Queue order as the policy defines it.
  outgrew_rank,     ///< One request needs more than the whole rank.
  fair_share,       ///< The tenant that had least so far.
  waited_longest,   ///< Somebody waited as long as the bound allows.
  not_worth_it,     ///< It would cost more than it brings.
  replaced_invalid, ///< The policy's answer broke a rule; the default decided.
};

/// Stable name, as written to the ledger.
std::string_view reason_name(Reason reason) noexcept;

} // namespace troupe::sched
