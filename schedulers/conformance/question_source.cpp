#include "schedulers/conformance/question_source.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

namespace troupe::sched::conformance {
namespace {

constexpr std::int64_t kLargeCount = 1LL << 40;
constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMillisecond = 1'000;

/// Integers of a range, and of its ends where those are asked for.
class Draw {
public:
  Draw(Situation situation, Rng& rng) : rng_(rng), extreme_(situation == Situation::extreme) {}

  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(rng_.below(static_cast<std::uint64_t>(high - low) + 1));
  }
  /// Of [low, high]; in extreme questions also one of its ends or `extreme`.
  std::int64_t value(std::int64_t low, std::int64_t high, std::int64_t extreme) {
    if (!extreme_ || rng_.below(2) == 0) return between(low, high);
    const std::int64_t ends[] = {low, high, extreme, extreme};
    return ends[rng_.below(4)];
  }
  bool one_in(std::uint64_t n) { return rng_.below(n) == 0; }
  std::uint64_t bits() { return rng_.bits(); }

private:
  Rng& rng_;
  bool extreme_;
};

std::size_t candidates(Situation situation, Draw& draw) {
  switch (situation) {
  case Situation::empty:
    return 0;
  case Situation::single:
    return 1;
  case Situation::many:
    return 500;
  case Situation::ordinary:
  case Situation::extreme:
    break;
  }
  return static_cast<std::size_t>(draw.between(1, 8));
}

RequestView request(Draw& draw, std::uint64_t id, const QuestionContext& context) {
  RequestView view;
  view.ref = {RequestId{id}, Attempt{static_cast<std::uint32_t>(draw.between(1, 3))}};
  view.session_hash = draw.one_in(4) ? 0 : mix64(static_cast<std::uint64_t>(draw.between(1, 6)));
  view.tenant_hash = mix64(static_cast<std::uint64_t>(draw.between(100, 103)));
  view.priority = draw.value(-2, 2, draw.one_in(2) ? kEnd : std::numeric_limits<int64_t>::min());
  view.arrival_us = context.now_us - draw.value(0, 10'000 * kMillisecond, context.now_us);
  const std::int64_t lead_us = draw.between(-1'000, 20'000) * kMillisecond;
  if (draw.one_in(3)) view.deadline_us = std::max<std::int64_t>(1, context.now_us + lead_us);
  view.prompt = draw.value(1, 8'192, kLargeCount);
  view.answered = draw.one_in(4) ? draw.value(1, 64, kLargeCount) : 0;
  view.done = draw.value(0, view.total() - 1, view.total() - 1);
  view.new_tokens_max = view.answered + draw.value(1, 512, kLargeCount);
  view.work_ps = draw.value(0, context.cost_model.marginal_ps(view.remaining(), view.done), kEnd);
  view.claim.reservation = static_cast<Reservation>(draw.between(0, 2));
  view.claim.expected_p50 = draw.value(0, 128, kLargeCount);
  view.claim.expected_p90 = view.claim.expected_p50 + draw.value(0, 256, kLargeCount);
  view.claim.preemptions = draw.between(0, 3);
  return view;
}

/// `n` requests with ids that rise.
std::vector<RequestView> requests(Draw& draw, std::size_t n, const QuestionContext& context) {
  std::vector<RequestView> all;
  all.reserve(n);
  std::uint64_t id = static_cast<std::uint64_t>(draw.between(1, 1'000'000));
  for (std::size_t i = 0; i < n; ++i) {
    all.push_back(request(draw, id, context));
    id += static_cast<std::uint64_t>(draw.between(1, 5));
  }
  return all;
}

RankView rank(Draw& draw, std::uint32_t id, const QuestionContext& context, bool decodes) {
  RankView view;
  view.rank = {RankId{id}, Incarnation{static_cast<std::uint32_t>(draw.between(1, 3))}};
  view.role = draw.one_in(2) ? Role::both : decodes ? Role::decode : Role::prefill;
  view.draining = draw.one_in(8);
  view.held = draw.one_in(8);
  view.block_tokens = context.block_tokens;
  view.context_max = draw.one_in(2) ? 0 : draw.value(1'024, 65'536, kLargeCount);
  view.kv_blocks_total = draw.value(1, 4'096, kLargeCount);
  view.kv_blocks_free = draw.value(0, view.kv_blocks_total, view.kv_blocks_total);
  view.slots_total = draw.value(1, 64, kLargeCount);
  view.slots_free = draw.value(0, view.slots_total, view.slots_total);
  view.running = draw.value(0, 64, kLargeCount);
  view.context_tokens = draw.value(0, 200'000, kLargeCount);
  view.queued = draw.value(0, 16, kLargeCount);
  view.queued_tokens = draw.value(0, 100'000, kLargeCount);
  view.uncached_tokens = draw.value(0, view.queued_tokens, view.queued_tokens);
  view.work_ps = draw.value(0, 1LL << 42, kEnd);
  view.as_of_us = context.now_us - draw.value(0, 50 * kMillisecond, context.now_us);
  return view;
}

std::vector<RankView> ranks(Draw& draw, std::size_t n, const QuestionContext& context,
                            bool decodes) {
  std::vector<RankView> all;
  all.reserve(n);
  std::uint32_t id = 0;
  for (std::size_t i = 0; i < n; ++i) {
    all.push_back(rank(draw, id, context, decodes));
    id += static_cast<std::uint32_t>(draw.between(1, 3));
  }
  return all;
}

QuestionContext context(Draw& draw, std::uint64_t number) {
  const auto rising = static_cast<std::int64_t>(number) * kMillisecond;
  QuestionContext made = context_at(60'000 * kMillisecond + rising, draw.bits());
  made.now_us += draw.value(0, 0, kLargeCount);
  made.block_tokens = 1LL << draw.between(4, 8);
  made.step_budget_ps = draw.value(0, 1LL << 38, kEnd);
  return made;
}

void fill(AdmissionQuestion& question, Situation situation, Draw& draw) {
  question.request = request(draw, 1, question.context);
  if (situation == Situation::empty) return;
  question.load.ranks = draw.value(1, 16, kLargeCount);
  question.load.waiting = draw.value(0, 500, kLargeCount);
  question.load.waiting_tokens = draw.value(0, 1'000'000, kLargeCount);
  question.load.least_work_ps = draw.value(0, 1LL << 43, kEnd);
  question.load.as_of_us = question.context.now_us;
}

void fill(QueueQuestion& question, Situation situation, Draw& draw) {
  question.waiting = requests(draw, candidates(situation, draw), question.context);
}

void fill(RouterQuestion& question, Situation situation, Draw& draw) {
  question.request = request(draw, 1, question.context);
  question.request.done = 0;
  question.ranks = ranks(draw, candidates(situation, draw), question.context, false);
  if (draw.one_in(2)) return;
  for (std::size_t i = 0; i < question.ranks.size(); ++i) {
    question.local_hit_tokens.push_back(
        draw.value(0, question.request.prompt, question.request.prompt));
  }
}

void fill(ChunkerQuestion& question, Situation situation, Draw& draw) {
  question.query.rank = {RankId{3}, Incarnation{1}};
  question.query.step_tokens_max = draw.value(1, 4'096, kLargeCount);
  question.requests = requests(draw, candidates(situation, draw), question.context);
}

void fill(HandoffQuestion& question, Situation situation, Draw& draw) {
  question.query.request = request(draw, 1, question.context);
  question.query.request.done = question.query.request.total();
  question.query.source = {RankId{0}, Incarnation{1}};
  if (situation == Situation::empty) return;
  question.query.tries = draw.value(0, 3, kLargeCount);
  question.query.transfers_of_source = draw.value(0, 4, kLargeCount);
  question.query.transfers = question.query.transfers_of_source + draw.value(0, 16, kLargeCount);
}

void fill(BalancerQuestion& question, Situation situation, Draw& draw) {
  question.request = request(draw, 1, question.context);
  question.request.done = question.request.total();
  question.ranks = ranks(draw, candidates(situation, draw), question.context, true);
  question.source = {RankId{1'000}, Incarnation{1}};
  if (!question.ranks.empty() && draw.one_in(3)) question.source = question.ranks[0].rank;
}

/// There is always a slice or a sequence: the contract of the kind promises it.
void fill(StepQuestion& question, Situation situation, Draw& draw) {
  std::size_t slices = candidates(situation, draw);
  std::size_t decodes = candidates(situation, draw);
  if (situation == Situation::empty || situation == Situation::single) {
    slices = draw.one_in(2) ? 1 : 0;
    decodes = 1 - slices;
  }
  const auto ref = [&](std::size_t i) {
    return RequestRef{RequestId{1 + i}, Attempt{static_cast<std::uint32_t>(draw.between(1, 3))}};
  };
  for (std::size_t i = 0; i < slices; ++i) {
    const std::int64_t first = draw.value(0, 8'192, kLargeCount);
    question.slices.push_back({ref(i), first, draw.value(1, 2'048, kLargeCount)});
  }
  for (std::size_t i = 0; i < decodes; ++i) {
    question.decodes.push_back({ref(slices + i), draw.value(1, 8'192, kLargeCount)});
  }
  question.step_tokens_max = draw.value(1, 1'024, kLargeCount);
}

void fill(OverlapQuestion& question, Situation situation, Draw& draw) {
  OverlapView& view = question.view;
  view.plans_held = draw.between(0, 2);
  view.sequences = static_cast<std::int64_t>(candidates(situation, draw));
  view.device_ps = draw.value(0, 1LL << 36, kEnd);
  view.host_ps = draw.value(0, 1LL << 36, kEnd);
  view.arrivals = draw.between(0, view.sequences);
  view.blocks_most = draw.value(0, view.sequences, kLargeCount);
  view.blocks_free = draw.value(0, 16, kLargeCount);
  view.blocks_retiring = draw.value(0, 16, kLargeCount);
}

/// One layer; some have no map yet, or no usable loads.
ExpertLayer expert_layer(Draw& draw, const ExpertTopology& topology) {
  ExpertLayer layer;
  if (!draw.one_in(6)) {
    for (std::int64_t e = 0; e < topology.experts; ++e)
      layer.loads.push_back(draw.value(0, 5'000, kLargeCount));
  }
  const std::int64_t rounds = draw.one_in(2) ? draw.between(1, 4) : 0;
  for (std::int64_t i = 0; i < rounds * topology.experts; ++i)
    layer.steps.push_back(draw.value(0, 2'000, kLargeCount));
  if (draw.one_in(3)) return layer;
  const std::int64_t shift = draw.between(0, topology.experts - 1);
  for (std::int64_t slot = 0; slot < topology.slots; ++slot)
    layer.current.push_back(static_cast<std::int32_t>((slot + shift) % topology.experts));
  return layer;
}

void fill(ExpertQuestion& question, Situation situation, Draw& draw) {
  constexpr std::size_t kLayersMax = 6;
  ExpertTopology& topology = question.topology;
  topology.gpus = draw.between(1, 4);
  topology.experts = situation == Situation::single ? 1 : draw.between(2, 16);
  topology.slots = std::max(topology.gpus, topology.experts + draw.between(0, 8));
  topology.nodes = draw.between(1, 2);
  topology.groups = draw.between(1, 2);
  question.moves_max = draw.value(0, 16, kLargeCount);
  question.costs.disturbance_ps = draw.value(0, 1LL << 40, kEnd);
  question.costs.layer_ps = draw.value(0, 1LL << 32, kLargeCount);
  question.costs.steps = draw.value(0, 1'000, kLargeCount);
  const std::size_t layers = std::min(candidates(situation, draw), kLayersMax);
  for (std::size_t i = 0; i < layers; ++i)
    question.layers.push_back(expert_layer(draw, topology));
}

} // namespace

QuestionContext context_at(std::int64_t now_us, std::uint64_t number) {
  QuestionContext context;
  context.now_us = now_us;
  context.seed = mix64(number);
  context.epoch = PolicyEpoch{1};
  return context;
}

template <class Question>
Question draw_question(Situation situation, Rng& rng, std::uint64_t number) {
  Draw draw(situation, rng);
  Question question;
  question.context = context(draw, number);
  fill(question, situation, draw);
  return question;
}

template AdmissionQuestion draw_question(Situation, Rng&, std::uint64_t);
template QueueQuestion draw_question(Situation, Rng&, std::uint64_t);
template RouterQuestion draw_question(Situation, Rng&, std::uint64_t);
template ChunkerQuestion draw_question(Situation, Rng&, std::uint64_t);
template HandoffQuestion draw_question(Situation, Rng&, std::uint64_t);
template BalancerQuestion draw_question(Situation, Rng&, std::uint64_t);
template StepQuestion draw_question(Situation, Rng&, std::uint64_t);
template OverlapQuestion draw_question(Situation, Rng&, std::uint64_t);
template ExpertQuestion draw_question(Situation, Rng&, std::uint64_t);

std::vector<RankView> equal_ranks(std::uint32_t count) {
  std::vector<RankView> all(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    all[i].rank = {RankId{i}, Incarnation{1}};
    all[i].block_tokens = 64;
    all[i].kv_blocks_free = all[i].kv_blocks_total = 1'000'000;
    all[i].slots_free = all[i].slots_total = 1'000;
  }
  return all;
}

RequestView arriving_request(Rng& rng, std::uint64_t id, std::int64_t now_us) {
  Draw draw(Situation::ordinary, rng);
  const QuestionContext context = context_at(now_us, id);
  RequestView view = request(draw, id, context);
  view.ref.attempt = Attempt{1};
  view.session_hash = draw.bits();
  view.arrival_us = now_us;
  if (view.deadline_us != 0) view.deadline_us = now_us + draw.between(1, 20'000) * kMillisecond;
  view.answered = view.done = 0;
  view.claim = {};
  view.work_ps = context.cost_model.marginal_ps(view.prompt, 0);
  return view;
}

} // namespace troupe::sched::conformance
