#include "actors/app/bench_step.hpp"

#include "actors/step_builder.hpp"
#include "schedulers/core/check.hpp"
#include "schedulers/registry/policy_registry.hpp"
#include "schedulers/stage/driver_stage.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

namespace troupe::app {

namespace {

constexpr std::int64_t kBlockTokens = 64;
constexpr std::int64_t kEndless = 1'000'000; ///< Tokens of an answer: none ends here.
constexpr std::int32_t kToken = 42;
constexpr std::int32_t kEos = 1;
constexpr RankRef kRank{RankId{0}, Incarnation{1}};
constexpr std::int64_t kStepsARound = 100;
constexpr std::size_t kTableMax = 512; ///< Blocks of one sequence.
constexpr double kGoalRatio = 10;
constexpr double kGrowthMax = 5;

/// 2,000 to 6,000 tokens.
std::int64_t context_of(std::int64_t sequence) { return 2000 + sequence * 1237 % 4000; }

template <class E>
const E* found(const sched::Effects& effects) {
  const E* last = nullptr;
  for (const sched::Effect& effect : effects.list()) {
    if (const auto* one = std::get_if<E>(&effect)) last = one;
  }
  return last;
}

const sched::Tokens* tokens_of(const sched::Effects& effects) {
  for (const sched::Effect& effect : effects.list()) {
    const auto* send = std::get_if<sched::Send>(&effect);
    const auto* tokens = send == nullptr ? nullptr : std::get_if<sched::Tokens>(&send->message);
    if (tokens != nullptr) return tokens;
  }
  return nullptr;
}

sched::RankOptions rank_options(std::int64_t sequences) {
  sched::RankOptions options;
  options.rank = kRank;
  options.role = sched::Role::decode;
  options.name = "decode-0";
  options.block_tokens = kBlockTokens;
  // Room for answers of 100,000 tokens that nobody gets to the end of.
  options.kv_blocks = sequences * 1700;
  options.slots = sequences;
  options.step_tokens_max = sequences;
  options.lease_us = kEndless * 1000;
  return options;
}

/// A decode rank with its token log, around an engine that takes no time.
class Rank {
public:
  Rank(std::int64_t sequences, const sched::PolicyRegistry& registry)
      : stage_(rank_options(sequences), {}, registry), log_({kEos}) {
    sched::Effects effects;
    stage_.start(0, effects);
    for (std::int64_t i = 0; i < sequences; ++i)
      adopt(i);
    compute();
    finish(); // The step that began with the first of them.
    TROUPE_CHECK(plan_.plan.sequences() == static_cast<std::size_t>(sequences),
                 "all of them decode");
  }

  /// The engine's answer to the plan; its memory is reused.
  void compute() {
    const std::size_t n = plan_.plan.sequences();
    result_.step = plan_.plan.step;
    result_.status.assign(n, ErrorCode::ok);
    result_.length.resize(n);
    result_.sampled.assign(n, kToken);
    result_.logprob_bits.assign(n, 0);
    result_.top_of.assign(n, {});
    for (std::size_t i = 0; i < n; ++i)
      result_.length[i] = plan_.plan.first_position[i] + plan_.plan.tokens_of[i].count;
  }

  /// What the rank does between two engine steps; the tokens for the driver stay in effects().
  void finish() {
    const sched::StepDone done = actors::take_result(*step(), result_, log_);
    sched::Effects effects;
    stage_.on(done, ++now_us_, effects);
    effects_ = std::move(effects);
    TROUPE_CHECK(step() != nullptr, "the next step follows");
    actors::build_plan(*step(), log_, plan_);
  }

  const sched::Effects& effects() const noexcept { return effects_; }

private:
  const sched::RunStep* step() const { return found<sched::RunStep>(effects_); }

  /// Reserves, reads and adopts one sequence, as a handoff does.
  void adopt(std::int64_t i) {
    const RequestRef ref{RequestId{static_cast<std::uint64_t>(i)}, Attempt{1}};
    const HandoffId handoff{static_cast<std::uint64_t>(i + 1)};
    const std::int64_t context = context_of(i);
    sched::Work work;
    work.prompt.assign(static_cast<std::size_t>(context), 7);
    work.new_tokens_max = 100'000;
    const std::int64_t positions_max = work.positions_max();
    log_.put(ref, {std::move(work), {kToken}});
    sched::Effects effects;
    stage_.on(sched::Reserve{ref, kRank, handoff, positions_max, kEndless, 1, 100'000}, 0, effects);
    stage_.on(sched::Pull{ref, kRank, handoff, {}, context, {}}, 0, effects);
    sched::Imported imported{ref, handoff};
    imported.positions = context;
    imported.answered = 1;
    imported.new_tokens_max = 100'000;
    stage_.on(imported, 0, effects);
    effects.clear();
    stage_.on(sched::Adopt{ref, kRank, handoff, {}}, 0, effects);
    if (found<sched::RunStep>(effects) == nullptr) return;
    effects_ = std::move(effects);
    actors::build_plan(*step(), log_, plan_);
  }

  sched::RankStage stage_;
  actors::TokenLog log_;
  actors::PlannedStep plan_;
  engine::StepResult result_;
  sched::Effects effects_; ///< Of the last event; holds the running step.
  std::int64_t now_us_ = 0;
};

/// A driver with the same requests.
class Driver {
public:
  Driver(std::int64_t sequences, const sched::PolicyRegistry& registry)
      : stage_(options(sequences), {}, registry) {
    sched::Effects effects;
    sched::RankUp up{kRank, sched::Role::decode, "decode-0"};
    stage_.on(up, 0, effects);
    sched::Tokens first{kRank, 0, {}};
    for (std::int64_t i = 0; i < sequences; ++i) {
      sched::Arrive arrive;
      arrive.request = RequestId{static_cast<std::uint64_t>(i)};
      arrive.work.prompt.assign(static_cast<std::size_t>(context_of(i)), 7);
      arrive.work.new_tokens_max = 100'000;
      stage_.on(arrive, 0, effects);
      first.rows.push_back({{arrive.request, Attempt{1}}, 0, kToken});
    }
    stage_.on(first, 0, effects);
    TROUPE_CHECK(stage_.counts().live == sequences, "all of them are admitted");
  }

  std::int64_t take(const sched::Tokens& tokens) {
    sched::Effects effects;
    stage_.on(tokens, ++now_us_, effects);
    TROUPE_CHECK(effects.list().size() == tokens.rows.size(), "each token is given on");
    return static_cast<std::int64_t>(effects.list().size());
  }

private:
  static sched::DriverOptions options(std::int64_t sequences) {
    sched::DriverOptions made;
    made.requests_max = sequences;
    return made;
  }

  sched::DriverStage stage_;
  std::int64_t now_us_ = 0;
};

double now_ns() {
  return static_cast<double>(std::chrono::steady_clock::now().time_since_epoch().count());
}

/// Medians of single steps: on a machine that others use, those that were not interrupted.
struct Steps {
  double rank_ns = 0, driver_ns = 0, floor_ns = 0;
};

Steps steps_of(std::int64_t sequences, std::int64_t rounds) {
  sched::PolicyRegistry registry;
  sched::register_builtin_policies(registry);
  Rank rank(sequences, registry);
  Driver driver(sequences, registry);
  driver.take(*tokens_of(rank.effects())); // Of the step that began with the first of them.
  PlainSteps plain(sequences, context_of(0));
  std::vector<double> of_rank, of_driver, floor;
  for (std::int64_t i = -kStepsARound; i < rounds * kStepsARound; ++i) {
    rank.compute();
    const double begin = now_ns();
    rank.finish();
    const double between = now_ns();
    driver.take(*tokens_of(rank.effects()));
    const double end = now_ns();
    const std::int64_t ended = plain.step(kToken);
    const double last = now_ns();
    TROUPE_CHECK(ended == 0, "nobody ends");
    if (i < 0) continue; // To warm up.
    of_rank.push_back(between - begin);
    of_driver.push_back(end - between);
    floor.push_back(last - end);
  }
  return {median(std::move(of_rank)), median(std::move(of_driver)), median(std::move(floor))};
}

} // namespace

PlainSteps::PlainSteps(std::int64_t sequences, std::int64_t context_tokens) {
  for (std::int64_t i = 0; i < sequences; ++i) {
    const std::int64_t position = context_tokens + i * 1237 % 4000;
    const auto blocks = static_cast<std::int32_t>((position + kBlockTokens - 1) / kBlockTokens);
    plan_.state_slot.push_back(StateSlotId{static_cast<std::int32_t>(i)});
    plan_.first_position.push_back(position);
    plan_.tokens_of.push_back({static_cast<std::int32_t>(i), 1});
    plan_.blocks_of.push_back({static_cast<std::int32_t>(plan_.block_table.size()), blocks});
    plan_.block_table.resize(plan_.block_table.size() + kTableMax);
    for (std::int32_t j = 0; j < blocks; ++j) {
      plan_.block_table[static_cast<std::size_t>(plan_.blocks_of.back().begin + j)] =
          KvBlockId{block_next_++};
    }
    plan_.logits.push_back(engine::Logits::last);
    plan_.sampling_of.push_back(static_cast<std::int32_t>(i));
    plan_.tokens.push_back(0);
    plan_.sampling.emplace_back();
    logs_.emplace_back().work.new_tokens_max = kEndless;
  }
}

std::int64_t PlainSteps::step(std::int32_t token) {
  std::int64_t ended = 0;
  ++plan_.step;
  std::vector<sched::TokenRow> rows; // A message: its memory goes with it.
  rows.reserve(logs_.size());
  for (std::size_t i = 0; i < logs_.size(); ++i) {
    actors::SequenceLog& log = logs_[i];
    sched::TokenRow& row = rows.emplace_back();
    row.ref.request = RequestId{i};
    row.index = log.answered();
    row.token = token;
    log.drawn.push_back(token);
    const auto& stops = log.work.stop_ids;
    const bool ends = token == kEos ||
                      std::find(stops.begin(), stops.end(), token) != stops.end() ||
                      log.answered() >= log.work.new_tokens_max;
    ended += ends ? 1 : 0;
    plan_.tokens[i] = token;
    plan_.sampling[i].output_position = log.answered();
    if (++plan_.first_position[i] % kBlockTokens != 0) continue;
    engine::Span& table = plan_.blocks_of[i];
    plan_.block_table[static_cast<std::size_t>(table.begin + table.count++)] =
        KvBlockId{block_next_++};
  }
  streamed_ = std::move(rows);
  return ended;
}

std::vector<BenchFigure> bench_step(std::int64_t rounds) {
  const Steps small = steps_of(256, rounds);
  const Steps large = steps_of(1024, rounds);
  const auto of = [&](const char* key, const char* what, double ns, double goal) {
    BenchFigure figure{key, what, "changed entries of flat arrays", goal};
    figure.cost_ns = ns;
    figure.floor_ns = small.floor_ns;
    return figure;
  };
  BenchFigure growth{"step_growth", "a scheduling step of 1,024 sequences", "with 256", kGrowthMax};
  growth.cost_ns = large.rank_ns;
  growth.floor_ns = small.rank_ns;
  return {of("step", "a scheduling step of 256 sequences: schedule, build, post", small.rank_ns,
             kGoalRatio),
          growth,
          of("step_driver", "its tokens put in order by the driver, on another thread",
             small.driver_ns, 0)};
}

} // namespace troupe::app
