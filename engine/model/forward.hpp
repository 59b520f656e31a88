// The whole model on one step: embeddings, layers, logits; then the new state of each sequence.

#pragma once

#include "engine/model/step_state.hpp"

#include <cstdint>

namespace troupe::engine {

/// Runs the tokens of `s` through the model. Writes compressed rows beyond the sequences' lengths
/// into their kv blocks, and nothing into the slots.
///
/// @post s.logits [sequences that want them, vocab], in order of the sequences
void forward(StepState& s);

/// Writes one sequence's new window rows, pending pairs, compressed ids and length to its slot.
void commit(StepState& s, std::size_t sequence);

} // namespace troupe::engine
