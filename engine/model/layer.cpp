// One block in order: site, norm, sublayer, expand, twice.

#include "engine/model/layer.hpp"

#include <cstring>
#include <utility>

namespace troupe::engine {

namespace {

/// Collapses the streams with the mix of the site before, computes this site's numbers, norms.
///
/// Leaves s.u, s.x, s.xq, s.post, s.mixing, and in s.mix the mix for the next site.
void enter_site(StepState& s, const SiteWeights& site, const float* norm) {
  const std::int64_t hc = s.c.hc_streams;
  const std::int64_t width = s.streams.cols();
  const std::int64_t numbers = (2 + hc) * hc;
  s.for_ranges(s.token_count, 30 * width, [&](std::int64_t begin, std::int64_t end, int) {
    double* raw = s.site_raw.data() + begin * numbers;
    s.ops.site_project({s.streams.row(begin), end - begin, width, width}, site.fn, s.eps, raw);
    for (std::int64_t t = begin; t < end; ++t) {
      s.ops.collapse(s.streams.row(t), s.mix.row(t), hc, s.c.hidden, s.u.row(t));
      s.ops.rms_norm(s.u.row(t), norm, s.eps, s.c.hidden, s.x.row(t));
      if (s.quantise) s.ops.sim_fp8(s.x.row(t), s.c.hidden, s.xq.row(t));
    }
    kernels::HyperArgs args;
    args.raw = raw;
    args.scale = site.scale;
    args.base = site.base;
    args.pre = s.mix.row(begin);
    args.post = s.post.row(begin);
    args.mixing = s.mixing.row(begin);
    args.rows = end - begin;
    args.hc = hc;
    args.iterations = s.c.hc_iterations;
    args.eps = s.c.hc_eps;
    s.ops.hyper(args);
  });
}

/// Adds the sublayer's output s.y to the streams.
void leave_site(StepState& s) {
  s.for_ranges(s.token_count, 8 * s.streams.cols(), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t t = begin; t < end; ++t) {
      s.ops.expand(s.y.row(t), s.post.row(t), s.mixing.row(t), s.c.hc_streams, s.c.hidden,
                   s.streams.row(t));
    }
  });
}

} // namespace

void run_layer(StepState& s, std::int64_t layer) {
  const LayerWeights& w = s.weights.layer(layer);
  if (s.trace != nullptr) {
    for (const SequenceStep& sequence : s.sequences) {
      s.trace->layer_input(layer, sequence.first_position, sequence.count,
                           s.streams.row(sequence.begin), s.mix.row(sequence.begin));
    }
  }
  if (w.engram != nullptr) run_engram(s, *w.engram, layer);
  s.traced(layer, TraceTensor::layer_entry, s.streams);

  enter_site(s, w.attn_site, w.attn_norm);
  s.traced(layer, TraceTensor::attn_in, s.u);
  run_attention(s, layer);
  s.traced(layer, TraceTensor::attn_out, s.y);
  leave_site(s);

  enter_site(s, w.ffn_site, w.ffn_norm);
  run_moe(s, layer);
  s.traced(layer, TraceTensor::moe_out, s.y);
  leave_site(s);
  s.traced(layer, TraceTensor::streams, s.streams);
  s.traced(layer, TraceTensor::mix, s.mix);
}

} // namespace troupe::engine
