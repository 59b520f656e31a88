// Mixture of experts: router, tokens grouped by expert, one task per expert and stretch of rows.

#include "engine/model/layer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace troupe::engine {

namespace {

constexpr std::int64_t kTaskRows = 48; ///< Rows of one expert task.

/// sqrt(softplus(logit)), linear beyond 20 as usual; rounded once.
float score_of(double logit) {
  return static_cast<float>(std::sqrt(logit > 20.0 ? logit : std::log1p(std::exp(logit))));
}

/// Best experts of one token by biased score, lower id first on ties; weights from the plain score.
void route_token(StepState& s, const LayerWeights& w, std::int64_t t, std::vector<float>& biased) {
  const std::int64_t k = s.c.experts_per_token;
  const float* bias = s.is_image[static_cast<std::size_t>(t)] != 0 ? w.gate_bias_vl : w.gate_bias;
  float* score = s.router.row(t);
  for (std::int64_t e = 0; e < s.c.experts; ++e) {
    score[e] = score_of(double{score[e]} / s.c.gate_temp);
    biased[static_cast<std::size_t>(e)] = score[e] + bias[e];
  }
  std::int32_t* ids = s.router_ids.data() + t * k;
  float* weight = s.router_weight.row(t);
  double sum = 0.0;
  for (std::int64_t i = 0; i < k; ++i) {
    std::int64_t best = -1;
    for (std::int64_t e = 0; e < s.c.experts; ++e) {
      const float value = biased[static_cast<std::size_t>(e)];
      // Taken experts are NaN; a token whose scores are all NaN still gets distinct experts.
      if (best < 0
              ? std::find(ids, ids + i, e) == ids + i
              : value > biased[static_cast<std::size_t>(best)] ||
                    (std::isnan(biased[static_cast<std::size_t>(best)]) && !std::isnan(value))) {
        best = e;
      }
    }
    ids[i] = static_cast<std::int32_t>(best);
    biased[static_cast<std::size_t>(best)] = std::numeric_limits<float>::quiet_NaN();
    weight[i] = score[best];
    sum += double{score[best]};
  }
  for (std::int64_t i = 0; i < k; ++i) {
    weight[i] = static_cast<float>(double{weight[i]} / (sum + 1e-20) * s.c.routed_scaling);
  }
}

/// Counting sort of (token, choice) pairs by expert; tokens stay in order within an expert.
void group_by_expert(StepState& s, std::int64_t layer) {
  const std::int64_t pairs = s.token_count * s.c.experts_per_token;
  std::int32_t* counts = s.expert_counts.data() + layer * s.c.experts;
  for (std::int64_t i = 0; i < pairs; ++i)
    ++counts[s.router_ids[static_cast<std::size_t>(i)]];
  s.expert_begin[0] = 0;
  for (std::int64_t e = 0; e < s.c.experts; ++e) {
    const auto at = static_cast<std::size_t>(e);
    s.expert_begin[at + 1] = s.expert_begin[at] + counts[e];
  }
  std::vector<std::int32_t> next(s.expert_begin.begin(), s.expert_begin.end() - 1);
  for (std::int64_t i = 0; i < pairs; ++i) {
    const auto expert = static_cast<std::size_t>(s.router_ids[static_cast<std::size_t>(i)]);
    const std::int32_t slot = next[expert]++;
    s.expert_slots[static_cast<std::size_t>(slot)] = static_cast<std::int32_t>(i);
    s.slot_of[static_cast<std::size_t>(i)] = slot;
  }
}

/// Rows of one expert: gate and up projections, SwiGLU, down projection.
///
/// @param weight  [rows] routing weights, or null for 1
void expert_rows(StepState& s, const ExpertWeights& w, kernels::MatrixView<const float> in,
                 const float* weight, kernels::MatrixView<float> out, WorkerScratch& scratch) {
  const std::int64_t inner = s.c.moe_intermediate;
  float* gate = WorkerScratch::grown(scratch.a, kTaskRows * inner);
  float* up = WorkerScratch::grown(scratch.b, kTaskRows * inner);
  s.ops.gemm(in, w.w1, {0, w.w1.panels()}, {gate, in.rows, inner, inner});
  s.ops.gemm(in, w.w3, {0, w.w3.panels()}, {up, in.rows, inner, inner});
  for (std::int64_t i = 0; i < in.rows; ++i) {
    float* row = gate + i * inner;
    s.ops.swiglu(row, up + i * inner, static_cast<float>(s.c.swiglu_limit),
                 weight != nullptr ? weight[i] : 1.0F, inner, row);
    if (s.quantise) s.ops.sim_fp8(row, inner, row);
  }
  s.ops.gemm({gate, in.rows, inner, inner}, w.w2, {0, w.w2.panels()}, out);
}

/// One stretch of rows of one expert; expert -1 is the shared one.
struct Task {
  std::int64_t expert = -1;
  std::int64_t begin = 0;
  std::int64_t rows = 0;
};

void run_task(StepState& s, const LayerWeights& w, const Task& task, WorkerScratch& scratch) {
  const Rows& input = s.quantise ? s.xq : s.x;
  const std::int64_t width = s.c.hidden;
  if (task.expert < 0) {
    expert_rows(s, w.shared, {input.row(task.begin), task.rows, width, width}, nullptr,
                {s.y.row(task.begin), task.rows, width, width}, scratch);
    return;
  }
  float weight[kTaskRows];
  for (std::int64_t i = 0; i < task.rows; ++i) {
    const std::int32_t pair = s.expert_slots[static_cast<std::size_t>(task.begin + i)];
    std::memcpy(s.gathered.row(task.begin + i), input.row(pair / s.c.experts_per_token),
                static_cast<std::size_t>(width) * sizeof(float));
    weight[i] = *(s.router_weight.data() + pair);
  }
  expert_rows(s, w.experts[static_cast<std::size_t>(task.expert)],
              {s.gathered.row(task.begin), task.rows, width, width}, weight,
              {s.expert_out.row(task.begin), task.rows, width, width}, scratch);
}

std::vector<Task> tasks_of(const StepState& s) {
  std::vector<Task> tasks;
  const auto add = [&tasks](std::int64_t expert, std::int64_t begin, std::int64_t end) {
    for (; begin < end; begin += kTaskRows) {
      tasks.push_back({expert, begin, std::min(kTaskRows, end - begin)});
    }
  };
  add(-1, 0, s.token_count);
  for (std::int64_t e = 0; e < s.c.experts; ++e) {
    const auto at = static_cast<std::size_t>(e);
    add(e, s.expert_begin[at], s.expert_begin[at + 1]);
  }
  return tasks;
}

/// y = shared + routed, the routed ones in ascending order of expert.
void combine(StepState& s, std::int64_t t) {
  const std::int64_t k = s.c.experts_per_token;
  const std::int32_t* slots = s.slot_of.data() + t * k;
  float* y = s.y.row(t);
  std::int32_t last = -1;
  for (std::int64_t i = 0; i < k; ++i) {
    // Slots ascend with the expert, so the next larger slot is the next expert.
    std::int32_t slot = std::numeric_limits<std::int32_t>::max();
    for (std::int64_t j = 0; j < k; ++j) {
      if (slots[j] > last) slot = std::min(slot, slots[j]);
    }
    const float* part = s.expert_out.row(slot);
    for (std::int64_t i2 = 0; i2 < s.c.hidden; ++i2)
      y[i2] += part[i2];
    last = slot;
  }
}

void trace_router(StepState& s, std::int64_t layer) {
  Rows top;
  top.shape(s.token_count, 1);
  for (std::int64_t t = 0; t < s.token_count; ++t) {
    const float* score = s.router.row(t);
    const bool image = s.is_image[static_cast<std::size_t>(t)] != 0;
    const LayerWeights& w = s.weights.layer(layer);
    const float* bias = image ? w.gate_bias_vl : w.gate_bias;
    float largest = 0.0F;
    for (std::int64_t e = 0; e < s.c.experts; ++e) {
      largest = std::max(largest, std::fabs(score[e] + bias[e]));
    }
    *top.row(t) = largest;
  }
  s.traced(layer, TraceTensor::router_scale, top);
  s.traced(layer, TraceTensor::router_weights, s.router_weight);
  s.traced_ids(layer, TraceIds::router, s.c.experts_per_token, s.router_ids.data());
}

} // namespace

void run_moe(StepState& s, std::int64_t layer) {
  const LayerWeights& w = s.weights.layer(layer);
  s.linear_wide(s.x.in(), w.gate, s.router.view());
  s.for_ranges(s.token_count, 60 * s.c.experts, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<float> biased(static_cast<std::size_t>(s.c.experts));
    for (std::int64_t t = begin; t < end; ++t)
      route_token(s, w, t, biased);
  });
  group_by_expert(s, layer);
  if (s.trace != nullptr) trace_router(s, layer);

  const std::vector<Task> tasks = tasks_of(s);
  const std::int64_t cost = 3 * s.c.hidden * s.c.moe_intermediate *
                            (s.token_count * (s.c.experts_per_token + 1)) /
                            static_cast<std::int64_t>(tasks.size());
  s.for_ranges(static_cast<std::int64_t>(tasks.size()), cost,
               [&](std::int64_t begin, std::int64_t end, int worker) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   run_task(s, w, tasks[static_cast<std::size_t>(i)], s.scratch(worker));
                 }
               });
  s.for_ranges(s.token_count, 2 * s.c.hidden * s.c.experts_per_token,
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t t = begin; t < end; ++t)
                   combine(s, t);
               });
}

} // namespace troupe::engine
