// Messages as a policy sees them: both ends of a reservation compute it from the same view.

#pragma once

#include "schedulers/model/rank_view.hpp"
#include "schedulers/stage/protocol.hpp"

namespace troupe::sched {

struct RankOptions;

RequestView view_of(const Submit& message);
RequestView view_of(const Assign& message);
/// `done` is complete: what is left is to decode.
RequestView view_of(const PrefillDone& message);
RequestView view_of(const Reserve& message);

/// A rank as placement sees it while it holds nothing.
RankView empty_rank(const RankOptions& options);

/// How a rank announces itself.
RankUp rank_up(const RankOptions& options);

} // namespace troupe::sched
