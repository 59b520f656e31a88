#include "schedulers/conformance/suite.hpp"

#include "schedulers/conformance/liveness.hpp"
#include "schedulers/conformance/question_source.hpp"
#include "schedulers/conformance/same_answer.hpp"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

namespace troupe::sched::conformance {
namespace {

template <class Question>
class Suite {
public:
  using Kind = typename Question::Kind;
  using Instance = std::unique_ptr<Kind>;

  Suite(const Maker& maker, const SuiteOptions& options, const Listener& listener)
      : maker_(maker), options_(options), listener_(listener) {}

  bool run() {
    if (!check("create", [this] { return create(); })) return false;
    if (options_.decide_us > 0 && !check("within_deadline", [this] { return in_time(); })) {
      return false;
    }
    const std::pair<const char*, Situation> situations[] = {{"valid", Situation::ordinary},
                                                            {"empty", Situation::empty},
                                                            {"single", Situation::single},
                                                            {"many", Situation::many},
                                                            {"extreme", Situation::extreme}};
    for (const auto& [name, situation] : situations)
      check(name, [this, s = situation] { return valid(s); });
    check("deterministic", [this] { return deterministic(); });
    check("state", [this] { return state_continues(); });
    check("foreign_state", [this] { return foreign_state(); });
    loops();
    return all_ok_;
  }

private:
  template <class Body>
  bool check(const char* name, const Body& body) {
    listener_.begin(name);
    const Finding finding = body();
    listener_.end(name, finding);
    all_ok_ = all_ok_ && finding.ok;
    return finding.ok;
  }

  /// What only some kinds have.
  void loops() {
    if constexpr (std::is_same_v<Question, QueueQuestion>) {
      check("observe", [this] { return observes(); });
      check("liveness", [this] { return everybody_is_served(*fresh(), options_); });
    } else if constexpr (std::is_same_v<Question, ChunkerQuestion>) {
      check("liveness", [this] { return prompts_end(*fresh(), options_); });
      check("step_budget", [this] { return step_budget(); });
    } else if constexpr (std::is_same_v<Question, RouterQuestion> ||
                         std::is_same_v<Question, BalancerQuestion>) {
      check("liveness", [this] { return every_rank_is_used<Question>(*fresh(), options_); });
    }
  }

  Finding create() {
    auto made = maker_();
    if (!made.ok()) return {false, made.error().message};
    if (dynamic_cast<Kind*>(made->get()) != nullptr) return {};
    return {false, "The instance is of another kind than its registration says."};
  }

  /// @pre create() was ok
  Instance fresh() {
    auto made = maker_();
    TROUPE_CHECK(made.ok(), "what was created once is created again");
    Kind* kind = dynamic_cast<Kind*>(made->get());
    static_cast<void>(made->release());
    return Instance(kind);
  }

  Finding broken(std::int64_t question, const std::string& what) const {
    return {false, "question " + std::to_string(question) + " of seed " +
                       std::to_string(options_.seed) + ": " + what + "."};
  }

  static std::string why(const Kind& policy, const Status& valid) {
    const std::string own = policy.failure();
    return own.empty() ? valid.error().message : own;
  }

  /// Asks, and tells queue policies what came of it.
  static auto put(Kind& policy, const Question& question) {
    auto answer = ask(policy, question);
    if constexpr (std::is_same_v<Question, QueueQuestion>) {
      if (answer.value && question.check(answer).ok() && !question.waiting.empty()) {
        const RequestView& first = question.waiting[answer.value->positions[0]];
        observe(policy, {question.context, first, QueueEvent::entered});
        observe(policy, {question.context, first, QueueEvent::served});
      }
    }
    return answer;
  }

  Finding valid(Situation situation) {
    Rng rng(options_.seed);
    const Instance policy = fresh();
    for (std::int64_t i = 0; i < options_.questions; ++i) {
      const auto question = draw_question<Question>(situation, rng, static_cast<std::uint64_t>(i));
      const auto answer = put(*policy, question);
      const Status fits = question.check(answer);
      if (!fits.ok()) return broken(i, why(*policy, fits));
    }
    return {};
  }

  /// Asks both the same; the finding of the first difference. Copies of a question lie elsewhere
  /// in memory, so an order of addresses shows.
  Finding differ(Kind& one, Kind& two, std::uint64_t seed, const std::string& what) {
    Rng rng(seed);
    for (std::int64_t i = 0; i < options_.questions; ++i) {
      const auto question =
          draw_question<Question>(Situation::ordinary, rng, static_cast<std::uint64_t>(i));
      const auto copy = question;
      const auto first = put(one, question);
      if (!same_answer(first, put(two, copy))) return broken(i, what);
    }
    if (one.export_state() == two.export_state()) return {};
    return {false, "After the same questions two instances export different states."};
  }

  Finding deterministic() {
    const Instance one = fresh();
    const Instance two = fresh();
    return differ(*one, *two, options_.seed,
                  "two instances with the same options answer differently; a policy may depend on "
                  "options, questions, observations and the given random source only");
  }

  Finding state_continues() {
    const Instance one = fresh();
    Rng rng(options_.seed);
    for (std::uint64_t i = 0; i < 53; ++i)
      put(*one, draw_question<Question>(Situation::ordinary, rng, i));
    const std::string state = one->export_state();
    const Instance two = fresh();
    two->import_state(state);
    if (two->export_state() != state) {
      return {false, "A state of " + std::to_string(state.size()) +
                         " bytes is exported otherwise right after its import."};
    }
    return differ(*one, *two, options_.seed + 1,
                  "an instance that imported the state of another does not answer like it");
  }

  Finding foreign_state() {
    const Instance one = fresh();
    const Instance two = fresh();
    two->import_state(std::string(65'537, '\xA5'));
    Finding finding = differ(*one, *two, options_.seed,
                             "after 65537 bytes that are no state a fresh instance answers "
                             "differently");
    if (!finding.ok) return finding;
    const std::string state = one->export_state();
    two->import_state(state.substr(0, state.size() / 2));
    Rng rng(options_.seed);
    const auto question = draw_question<Question>(Situation::ordinary, rng, 1);
    const Status fits = question.check(put(*two, question));
    return fits.ok() ? Finding{} : broken(0, "after half of a state: " + why(*two, fits));
  }

  /// The least of three tries counts: one may have been disturbed.
  std::int64_t took_us(Kind& policy, const Question& question) {
    std::int64_t least_us = 0;
    for (int i = 0; i < 3; ++i) {
      const std::int64_t begin_us = options_.now_us();
      ask(policy, question);
      const std::int64_t us = options_.now_us() - begin_us;
      least_us = i == 0 ? us : std::min(least_us, us);
      if (least_us <= options_.decide_us) break;
    }
    return least_us;
  }

  Finding in_time() {
    Rng rng(options_.seed);
    const Instance policy = fresh();
    std::int64_t most_us = 0;
    for (std::int64_t i = 0; i < 100; ++i) {
      const Situation situation = i % 10 == 9 ? Situation::many : Situation::ordinary;
      const auto question = draw_question<Question>(situation, rng, static_cast<std::uint64_t>(i));
      most_us = std::max(most_us, took_us(*policy, question));
      if (most_us <= options_.decide_us) continue;
      return broken(i, "a call took " + std::to_string(most_us) +
                           " us in the best of three tries, "
                           "expected at most " +
                           std::to_string(options_.decide_us) +
                           " us (decide_us); nothing else was asked");
    }
    return {true, "the slowest of 100 questions took " + std::to_string(most_us) + " us of " +
                      std::to_string(options_.decide_us) + "."};
  }

  /// Events of requests it never saw, in an order that makes no sense.
  Finding observes() {
    const Instance policy = fresh();
    Rng rng(options_.seed);
    for (std::int64_t i = 0; i < options_.questions; ++i) {
      const auto question =
          draw_question<QueueQuestion>(Situation::extreme, rng, static_cast<std::uint64_t>(i));
      for (const RequestView& request : question.waiting) {
        const auto event = static_cast<QueueEvent>(rng.below(4));
        observe(*policy, {question.context, request, event});
      }
      const Status fits = question.check(ask(*policy, question));
      if (!fits.ok()) return broken(i, "after foreign observations: " + why(*policy, fits));
    }
    return {};
  }

  Finding step_budget() {
    const Instance policy = fresh();
    const CostModel model;
    for (const std::int64_t tokens : {1LL, 512LL, 1LL << 40}) {
      if (policy->step_budget_ps(model, tokens) >= 0) continue;
      return {false, "The budget of a step of " + std::to_string(tokens) + " tokens is negative."};
    }
    return {};
  }

  const Maker& maker_;
  const SuiteOptions& options_;
  const Listener& listener_;
  bool all_ok_ = true;
};

using Run = bool (*)(const Maker&, const SuiteOptions&, const Listener&);

template <class Question>
bool run(const Maker& maker, const SuiteOptions& options, const Listener& listener) {
  return Suite<Question>(maker, options, listener).run();
}

Run suite_of(const std::string& kind) {
  const std::pair<std::string_view, Run> suites[] = {
      {AdmissionQuestion::kKind, run<AdmissionQuestion>},
      {QueueQuestion::kKind, run<QueueQuestion>},
      {RouterQuestion::kKind, run<RouterQuestion>},
      {ChunkerQuestion::kKind, run<ChunkerQuestion>},
      {HandoffQuestion::kKind, run<HandoffQuestion>},
      {BalancerQuestion::kKind, run<BalancerQuestion>},
      {StepQuestion::kKind, run<StepQuestion>},
      {OverlapQuestion::kKind, run<OverlapQuestion>},
      {ExpertQuestion::kKind, run<ExpertQuestion>}};
  for (const auto& [name, suite] : suites) {
    if (name == kind) return suite;
  }
  return nullptr;
}

} // namespace

bool run_suite(const std::string& kind, const Maker& maker, const SuiteOptions& options,
               const Listener& listener) {
  const Run suite = suite_of(kind);
  TROUPE_CHECK(suite != nullptr, "a kind with questions");
  return suite(maker, options, listener);
}

bool has_suite(const std::string& kind) { return suite_of(kind) != nullptr; }

} // namespace troupe::sched::conformance
