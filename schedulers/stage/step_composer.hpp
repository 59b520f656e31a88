// Turns slices on offer and decoding sequences into one engine step, by the step policy, and asks
// the overlap policy whether to do so while another one runs.

#pragma once

#include "schedulers/core/rng.hpp"
#include "schedulers/stage/rank_reporter.hpp"
#include "schedulers/stage/rank_stage.hpp"
#include "schedulers/stage/sequence_table.hpp"
#include "schedulers/stage/slot_pack.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::sched {

class StepComposer {
public:
  StepComposer(const RankOptions& options, const PolicySet& set, const PolicyRegistry& registry)
      : slots_({StageKind::rank, options.rank}, set, registry),
        rng_(draw(options.seed, 3 + raw(options.rank.rank), Purpose::policy)) {}

  /// Entries of step `number`: blocks are taken, the sequences marked as in it. The record of the
  /// decision goes to `effects`. @pre slices are valid for the table; not both lists are empty
  RunStep compose(std::uint64_t number, const std::vector<Slice>& slices, SequenceTable& table,
                  const RankOptions& options, std::int64_t now_us, Effects& effects);

  /// Whether the next step is planned now, while one runs. The record goes to `effects`.
  bool plans_ahead(const OverlapView& view, const RankOptions& options, std::int64_t now_us,
                   Effects& effects);

  SlotDesk<RankSlots>& slots() noexcept { return slots_; }
  PolicyEpoch epoch() const noexcept { return slots_.epoch(); }
  std::int64_t invalid_decisions() const noexcept { return invalid_; }

private:
  QuestionContext context(const RankOptions& options, std::int64_t now_us);

  SlotDesk<RankSlots> slots_;
  Rng rng_;
  std::int64_t invalid_ = 0;
};

/// Slices of an answer that are still true on this rank; the others are reported as they stand.
std::vector<Slice> true_slices(const RunChunks& answer, SequenceTable& table,
                               RankReporter& reporter);

/// Sequences that want a token and have the block for it, the one that waited longest first.
std::vector<const Sequence*> decoding_sequences(const SequenceTable& table,
                                                std::int64_t block_tokens);
/// Whether there is any.
bool any_decodes(const SequenceTable& table, std::int64_t block_tokens);

/// The row of entry `i`: at its place, else anywhere; null when there is none.
const StepRow* row_of(const StepDone& event, std::size_t i, const RequestRef& ref);

} // namespace troupe::sched
