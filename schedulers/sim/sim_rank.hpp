// One life of a rank: the real rank stage, and a cost model in place of an engine.
//
// Tokens are made up from the request's seed and the output position only, so that a request has
// the same answer on any rank, in any attempt. The model checks every step against accounts of its
// own.

#pragma once

#include "schedulers/core/rng.hpp"
#include "schedulers/stage/event.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::sim {

/// Which tokens are made up.
struct TokenRule {
  std::int64_t vocab = 1'000'000;
  std::vector<std::int32_t> never; ///< Ascending; ids that are skipped.
};

/// The token at an output position. Pure. @pre vocab is larger than `never`
std::int32_t token_of(const TokenRule& rule, std::uint64_t seed, std::int64_t index);

/// How engines behave. Rates are of a thousand.
struct EngineOptions {
  TokenRule tokens;
  std::int64_t host_us = 0; ///< To plan, prepare and post-process a step.
  std::int64_t export_us = 1;
  std::int64_t copy_us_min = 1; ///< Reading a sequence from another rank.
  std::int64_t copy_us_max = 50;
  std::int64_t copy_us_per_kilotoken = 0;
  std::int64_t row_failure_permille = 0;
  std::int64_t step_failure_permille = 0;
  std::int64_t export_failure_permille = 0;
  std::int64_t import_failure_permille = 0;
  std::int64_t damage_permille = 0; ///< Imports whose bytes arrive wrong.
  std::int64_t lie_permille = 0;    ///< Draws of a wrong token: a canary for the invariants.
};

/// Answers that end by themselves: request and its tokens, ascending by request.
using AnswerLengths = std::vector<std::pair<RequestId, std::int64_t>>;

/// What all engines share; owned by the simulator.
struct EngineWorld {
  EngineOptions options;
  AnswerLengths lengths;
  Rng rng{1};
  std::string problem; ///< First thing that no rank may ask of an engine.
};

/// An event that the engine sends its own stage.
struct EngineAnswer {
  bool comes = false; ///< A stuck engine answers nothing.
  std::int64_t after_us = 0;
  sched::Event event = sched::Timer{};
};

class SimRank {
public:
  /// @pre `world` outlives it
  SimRank(const sched::RankOptions& options, const sched::PolicySet& set,
          const sched::PolicyRegistry& registry, EngineWorld& world);

  const sched::RankOptions& options() const noexcept { return options_; }
  sched::RankStage& stage() noexcept { return *stage_; }
  const sched::RankStage& stage() const noexcept { return *stage_; }

  /// Keeps the token log of an assignment, as the shell of a running rank does.
  void remember(const sched::Assign& event);
  /// Whether it keeps a token log of that sequence.
  bool knows(const RequestRef& ref) const;

  /// Steps run one after the other, each when it is given or when the one before has ended.
  EngineAnswer run(const sched::RunStep& step, std::int64_t now_us);
  /// The stage hears of the end of its oldest step now.
  void returned(const sched::StepDone& done);
  EngineAnswer send_out(const sched::ExportSequence& wanted);
  /// @param source  the life the sequence is read from; null when it is gone
  EngineAnswer bring_in(const sched::ImportSequence& wanted, const SimRank* source);
  void forget(const RequestRef& ref);

  void stick() noexcept { stuck_ = true; }
  void slow_down(std::int64_t permille) noexcept { slow_permille_ = permille; }

  /// Token logs and exports it keeps.
  std::size_t logs() const noexcept { return sequences_.size() + exported_.size(); }

private:
  /// A sequence as an engine and its shell know it: counts instead of tokens.
  struct Log {
    RequestRef ref;
    std::uint64_t seed = 0;
    std::uint64_t digest = 0;
    std::int64_t tokens = 0;   ///< Known: prompt, answered, drawn.
    std::int64_t answered = 0; ///< Output tokens so far, of all attempts.
    std::int64_t new_tokens_max = 0;
    std::int64_t answer_tokens = 0; ///< Where the answer ends by itself; 0 = nowhere.
    std::int64_t positions = 0;     ///< Computed.
    bool failed = false;            ///< A step failed on it.
    StateSlotId slot{};
    std::vector<KvBlockId> blocks; ///< Its block table, when a step last showed it.
  };
  using Logs = std::vector<Log>; ///< Ascending by ref.

  /// Where the log of `ref` is, or would be.
  template <class AnyLogs>
  static auto at(AnyLogs& logs, const RequestRef& ref) {
    return std::lower_bound(logs.begin(), logs.end(), ref,
                            [](const Log& log, const RequestRef& key) { return log.ref < key; });
  }
  Log* find(const RequestRef& ref);
  /// @param table  blocks of the entry
  sched::StepRow run_entry(const sched::StepEntry& entry, std::span<const KvBlockId> table);
  void claim(Log& log, StateSlotId slot, std::span<const KvBlockId> blocks);
  void draw_token(Log& log, sched::StepRow& row);
  std::int64_t cost_ps(const sched::StepEntry& entry) const;
  bool chance(std::int64_t permille) {
    return permille > 0 && world_.rng.below(1000) < static_cast<std::uint64_t>(permille);
  }
  void fail(const char* what);

  sched::RankOptions options_;
  EngineWorld& world_;
  std::unique_ptr<sched::RankStage> stage_;
  Logs sequences_;
  Logs exported_;
  std::vector<RequestRef> block_owner_;  ///< By block, up to the highest seen; zero = nobody.
  std::vector<RequestRef> slot_owner_;   ///< By slot.
  std::deque<sched::RunStep> in_flight_; ///< Whose end the stage has not heard of.
  std::int64_t host_free_us_ = 0;        ///< When the plan of the last step was ready.
  std::int64_t device_free_us_ = 0;      ///< When the last step ends.
  bool stuck_ = false;
  std::int64_t slow_permille_ = 1000;
};

} // namespace troupe::sim
