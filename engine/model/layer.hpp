// The parts of one layer, each a list of kernel calls on the working set of a step.

#pragma once

#include "engine/model/step_state.hpp"

#include <cstdint>

namespace troupe::engine {

/// One whole block: Engram where the layer has it, attention, mixture of experts.
///
/// Source: DeepSeek-V4.1, single-pass hyper-connections: the mix of a site is the one that the site
/// before it computed.
void run_layer(StepState& s, std::int64_t layer);

/// streams += gated rows of the n-gram table.
void run_engram(StepState& s, const EngramWeights& w, std::int64_t layer);

/// Compressed ids of every token and its predecessors into s.grams; stages the newest ones.
void look_back(StepState& s);

/// Compressed rows and index keys of the groups that this step completes, into the kv blocks;
/// stages the pending half of an incomplete pair. Reads s.x.
void run_compressor(StepState& s, std::int64_t layer);

/// Chooses the rows of every token, and the candidate blocks in their source layer. Reads s.x and
/// s.qrq, leaves s.chosen.
void run_indexer(StepState& s, std::int64_t layer);

/// Attention sublayer: s.x (and s.xq) to s.y.
void run_attention(StepState& s, std::int64_t layer);

/// Mixture of experts: s.x (and s.xq) to s.y.
void run_moe(StepState& s, std::int64_t layer);

/// Copies rows of the kv blocks of one sequence as float32.
///
/// @param ids   [count] rows of the source, or null for first, first + 1, ...
/// @param out   [count, head_dim] or [count, index_head_dim]
void read_main_rows(const StepState& s, const KvSourceLayout& source, const SequenceStep& sequence,
                    const std::int32_t* ids, std::int64_t first, std::int64_t count, float* out);
void read_index_keys(const StepState& s, const KvSourceLayout& source, const SequenceStep& sequence,
                     const std::int32_t* ids, std::int64_t first, std::int64_t count, float* out);

} // namespace troupe::engine
