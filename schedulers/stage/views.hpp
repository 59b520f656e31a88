// Messages as a policy sees them: both ends of a reservation compute it from the same view.

#pragma once

#include "schedulers/model/rank_view.hpp"
#include "schedulers/stage/protocol.hpp"

#include <optional>
#include <string>

namespace troupe::sched {

struct RankOptions;
struct Sequence;

RequestView view_of(const Submit& message);
RequestView view_of(const Assign& message);
/// `done` is complete: what is left is to decode.
RequestView view_of(const PrefillDone& message);
RequestView view_of(const Reserve& message);

/// What a rank says of a sequence whose prefill is complete.
PrefillDone prefill_done_of(const Sequence& sequence, const RankOptions& options,
                            std::string manifest);
/// Takes over what an Assign says of a sequence that got its room.
void begin_prefill(Sequence& sequence, const Assign& message);

/// What the driver must hear when the lease of a sequence ran out, where nobody else has it: it
/// would only be missed much later.
std::optional<Ended> lost_with_lease(const Sequence& sequence, RankRef rank);

/// A rank as placement sees it while it holds nothing.
RankView empty_rank(const RankOptions& options);

/// How a rank announces itself.
RankUp rank_up(const RankOptions& options);

} // namespace troupe::sched
