#include "schedulers/model/reason.hpp"

namespace troupe::sched {

std::string_view reason_name(Reason reason) noexcept {
  switch (reason) {
  case Reason::unset:
    return "unset";
  case Reason::only_choice:
    return "only_choice";
  case Reason::lowest_score:
    return "lowest_score";
  case Reason::tie_lowest_id:
    return "tie_lowest_id";
  case Reason::next_in_turn:
    return "next_in_turn";
  case Reason::drawn:
    return "drawn";
  case Reason::better_of_two:
    return "better_of_two";
  case Reason::by_session:
    return "by_session";
  case Reason::cached_there:
    return "cached_there";
  case Reason::held_back:
    return "held_back";
  case Reason::in_place:
    return "in_place";
  case Reason::admitted:
    return "admitted";
  case Reason::meets_deadline:
    return "meets_deadline";
  case Reason::misses_deadline:
    return "misses_deadline";
  case Reason::no_target:
    return "no_target";
  case Reason::within_budget:
    return "within_budget";
  case Reason::budget_reached:
    return "budget_reached";
  case Reason::budget_too_small:
    return "budget_too_small";
  case Reason::nothing_to_do:
    return "nothing_to_do";
  case Reason::no_room:
    return "no_room";
  case Reason::no_rank:
    return "no_rank";
  case Reason::in_order:
    return "in_order";
  case Reason::outgrew_rank:
    return "outgrew_rank";
  case Reason::fair_share:
    return "fair_share";
  case Reason::waited_longest:
    return "waited_longest";
  case Reason::not_worth_it:
    return "not_worth_it";
  case Reason::replaced_invalid:
    return "replaced_invalid";
  }
  return "unknown";
}

} // namespace troupe::sched
