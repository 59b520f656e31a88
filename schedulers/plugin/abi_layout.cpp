// Proves at compile time that the views of policy_abi.h are the structs that built-in policies see,
// so that pointers are passed and nothing is copied, and that its numbers are ours.

#include "schedulers/model/cost_model.hpp"
#include "schedulers/model/decisions.hpp"
#include "schedulers/model/load_view.hpp"
#include "schedulers/model/rank_view.hpp"
#include "schedulers/model/reason.hpp"
#include "schedulers/model/request_view.hpp"
#include "schedulers/plugin/policy_abi.h"
#include "schedulers/policy/overlap_policy.hpp"
#include "schedulers/policy/queue_policy.hpp"
#include "schedulers/policy/step_policy.hpp"

#include <cstddef>
#include <type_traits>

namespace troupe::sched {

#define TROUPE_SAME_SIZE(ours, theirs)                                                             \
  static_assert(std::is_standard_layout_v<ours> && sizeof(ours) == sizeof(theirs) &&               \
                alignof(ours) == alignof(theirs))
#define TROUPE_SAME_PLACE(ours, field, theirs, their_field)                                        \
  static_assert(offsetof(ours, field) == offsetof(theirs, their_field) &&                          \
                sizeof(ours::field) == sizeof(theirs::their_field))
#define TROUPE_SAME(ours, theirs, field) TROUPE_SAME_PLACE(ours, field, theirs, field)

TROUPE_SAME_SIZE(CostModel, troupe_cost_model);
TROUPE_SAME(CostModel, troupe_cost_model, step_ps);
TROUPE_SAME(CostModel, troupe_cost_model, token_ps);
TROUPE_SAME(CostModel, troupe_cost_model, pair_ps);
TROUPE_SAME(CostModel, troupe_cost_model, image_patch_ps);
TROUPE_SAME(CostModel, troupe_cost_model, sequence_ps);
TROUPE_SAME(CostModel, troupe_cost_model, context_token_ps);

static_assert(offsetof(RequestRef, request) == 0 && sizeof(RequestRef::request) == 8);
static_assert(offsetof(RequestRef, attempt) == 8 && sizeof(RequestRef::attempt) == 4);
static_assert(sizeof(RequestRef) == 16);
static_assert(offsetof(RankRef, rank) == 0 && sizeof(RankRef::rank) == 4);
static_assert(offsetof(RankRef, incarnation) == 4 && sizeof(RankRef::incarnation) == 4);
static_assert(sizeof(RankRef) == 8);

TROUPE_SAME_SIZE(RequestView, troupe_request_view);
static_assert(offsetof(RequestView, ref) == offsetof(troupe_request_view, request));
static_assert(offsetof(troupe_request_view, attempt) == offsetof(RequestRef, attempt));
TROUPE_SAME(RequestView, troupe_request_view, session_hash);
TROUPE_SAME(RequestView, troupe_request_view, tenant_hash);
TROUPE_SAME(RequestView, troupe_request_view, priority);
TROUPE_SAME(RequestView, troupe_request_view, arrival_us);
TROUPE_SAME(RequestView, troupe_request_view, deadline_us);
TROUPE_SAME(RequestView, troupe_request_view, prompt);
TROUPE_SAME(RequestView, troupe_request_view, answered);
TROUPE_SAME(RequestView, troupe_request_view, done);
TROUPE_SAME(RequestView, troupe_request_view, new_tokens_max);
TROUPE_SAME(RequestView, troupe_request_view, work_ps);
constexpr std::size_t kClaim = offsetof(RequestView, claim);
static_assert(kClaim + offsetof(Claim, reservation) == offsetof(troupe_request_view, reservation));
static_assert(sizeof(Claim::reservation) == sizeof(troupe_request_view::reservation));
static_assert(kClaim + offsetof(Claim, expected_p50) ==
              offsetof(troupe_request_view, expected_p50));
static_assert(kClaim + offsetof(Claim, expected_p90) ==
              offsetof(troupe_request_view, expected_p90));
static_assert(kClaim + offsetof(Claim, preemptions) == offsetof(troupe_request_view, preemptions));

TROUPE_SAME_SIZE(RankView, troupe_rank_view);
static_assert(offsetof(RankView, rank) == offsetof(troupe_rank_view, rank));
static_assert(offsetof(troupe_rank_view, incarnation) == offsetof(RankRef, incarnation));
TROUPE_SAME(RankView, troupe_rank_view, role);
TROUPE_SAME(RankView, troupe_rank_view, draining);
TROUPE_SAME(RankView, troupe_rank_view, held);
TROUPE_SAME(RankView, troupe_rank_view, block_tokens);
TROUPE_SAME(RankView, troupe_rank_view, context_max);
TROUPE_SAME(RankView, troupe_rank_view, kv_blocks_free);
TROUPE_SAME(RankView, troupe_rank_view, kv_blocks_total);
TROUPE_SAME(RankView, troupe_rank_view, slots_free);
TROUPE_SAME(RankView, troupe_rank_view, slots_total);
TROUPE_SAME(RankView, troupe_rank_view, running);
TROUPE_SAME(RankView, troupe_rank_view, context_tokens);
TROUPE_SAME(RankView, troupe_rank_view, queued);
TROUPE_SAME(RankView, troupe_rank_view, queued_tokens);
TROUPE_SAME(RankView, troupe_rank_view, uncached_tokens);
TROUPE_SAME(RankView, troupe_rank_view, work_ps);
TROUPE_SAME(RankView, troupe_rank_view, as_of_us);

TROUPE_SAME_SIZE(LoadView, troupe_load_view);
TROUPE_SAME(LoadView, troupe_load_view, waiting);
TROUPE_SAME(LoadView, troupe_load_view, waiting_tokens);
TROUPE_SAME(LoadView, troupe_load_view, least_work_ps);
TROUPE_SAME(LoadView, troupe_load_view, ranks);
TROUPE_SAME(LoadView, troupe_load_view, as_of_us);

TROUPE_SAME_SIZE(OfferedSlice, troupe_slice_view);
TROUPE_SAME_PLACE(troupe_slice_view, attempt, RequestRef, attempt);
TROUPE_SAME(OfferedSlice, troupe_slice_view, first);
TROUPE_SAME(OfferedSlice, troupe_slice_view, count);

TROUPE_SAME_SIZE(DecodeView, troupe_decode_view);
TROUPE_SAME_PLACE(troupe_decode_view, attempt, RequestRef, attempt);
TROUPE_SAME(DecodeView, troupe_decode_view, positions);

TROUPE_SAME_SIZE(OverlapView, troupe_overlap_view);
TROUPE_SAME(OverlapView, troupe_overlap_view, device_ps);
TROUPE_SAME(OverlapView, troupe_overlap_view, host_ps);
TROUPE_SAME(OverlapView, troupe_overlap_view, plans_held);
TROUPE_SAME(OverlapView, troupe_overlap_view, sequences);
TROUPE_SAME(OverlapView, troupe_overlap_view, constrained);
TROUPE_SAME(OverlapView, troupe_overlap_view, arrivals);
TROUPE_SAME(OverlapView, troupe_overlap_view, drafts);
TROUPE_SAME(OverlapView, troupe_overlap_view, blocks_most);
TROUPE_SAME(OverlapView, troupe_overlap_view, blocks_free);
TROUPE_SAME(OverlapView, troupe_overlap_view, blocks_retiring);

TROUPE_SAME_SIZE(Share, troupe_share);
TROUPE_SAME(Share, troupe_share, candidate);
TROUPE_SAME(Share, troupe_share, tokens);

#undef TROUPE_SAME
#undef TROUPE_SAME_PLACE
#undef TROUPE_SAME_SIZE

template <class Ours>
constexpr bool same(Ours ours, int theirs) {
  return static_cast<int>(ours) == theirs;
}

static_assert(same(Reason::unset, TROUPE_REASON_UNSET));
static_assert(same(Reason::only_choice, TROUPE_REASON_ONLY_CHOICE));
static_assert(same(Reason::lowest_score, TROUPE_REASON_LOWEST_SCORE));
static_assert(same(Reason::tie_lowest_id, TROUPE_REASON_TIE_LOWEST_ID));
static_assert(same(Reason::next_in_turn, TROUPE_REASON_NEXT_IN_TURN));
static_assert(same(Reason::drawn, TROUPE_REASON_DRAWN));
static_assert(same(Reason::better_of_two, TROUPE_REASON_BETTER_OF_TWO));
static_assert(same(Reason::by_session, TROUPE_REASON_BY_SESSION));
static_assert(same(Reason::cached_there, TROUPE_REASON_CACHED_THERE));
static_assert(same(Reason::held_back, TROUPE_REASON_HELD_BACK));
static_assert(same(Reason::in_place, TROUPE_REASON_IN_PLACE));
static_assert(same(Reason::admitted, TROUPE_REASON_ADMITTED));
static_assert(same(Reason::meets_deadline, TROUPE_REASON_MEETS_DEADLINE));
static_assert(same(Reason::misses_deadline, TROUPE_REASON_MISSES_DEADLINE));
static_assert(same(Reason::no_target, TROUPE_REASON_NO_TARGET));
static_assert(same(Reason::within_budget, TROUPE_REASON_WITHIN_BUDGET));
static_assert(same(Reason::budget_reached, TROUPE_REASON_BUDGET_REACHED));
static_assert(same(Reason::budget_too_small, TROUPE_REASON_BUDGET_TOO_SMALL));
static_assert(same(Reason::nothing_to_do, TROUPE_REASON_NOTHING_TO_DO));
static_assert(same(Reason::no_room, TROUPE_REASON_NO_ROOM));
static_assert(same(Reason::no_rank, TROUPE_REASON_NO_RANK));
static_assert(same(Reason::in_order, TROUPE_REASON_IN_ORDER));
static_assert(same(Reason::outgrew_rank, TROUPE_REASON_OUTGREW_RANK));
static_assert(same(Reason::fair_share, TROUPE_REASON_FAIR_SHARE));
static_assert(same(Reason::waited_longest, TROUPE_REASON_WAITED_LONGEST));
static_assert(same(Reason::not_worth_it, TROUPE_REASON_NOT_WORTH_IT));
static_assert(same(Reason::replaced_invalid, TROUPE_REASON_REPLACED_INVALID));

static_assert(same(Role::prefill, TROUPE_ROLE_PREFILL));
static_assert(same(Role::decode, TROUPE_ROLE_DECODE));
static_assert(same(Role::both, TROUPE_ROLE_BOTH));
static_assert(same(Reservation::worst, TROUPE_RESERVE_WORST));
static_assert(same(Reservation::expected, TROUPE_RESERVE_EXPECTED));
static_assert(same(Reservation::shielded, TROUPE_RESERVE_SHIELDED));
static_assert(same(QueueEvent::entered, TROUPE_QUEUE_ENTERED));
static_assert(same(QueueEvent::served, TROUPE_QUEUE_SERVED));
static_assert(same(QueueEvent::returned, TROUPE_QUEUE_RETURNED));
static_assert(same(QueueEvent::left, TROUPE_QUEUE_LEFT));
static_assert(same(Admission::admit, TROUPE_ADMIT));
static_assert(same(Admission::reject, TROUPE_REJECT));
static_assert(same(HandoffMode::whole, TROUPE_HANDOFF_WHOLE));

} // namespace troupe::sched
