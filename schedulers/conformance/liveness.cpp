#include "schedulers/conformance/liveness.hpp"

#include "schedulers/conformance/question_source.hpp"
#include "schedulers/stage/retry_timer.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <vector>

namespace troupe::sched::conformance {
namespace {

std::string text(std::int64_t number) { return std::to_string(number); }

Finding broken(std::int64_t round, const SuiteOptions& options, const std::string& what) {
  return {false,
          "round " + text(round) + " of seed " + std::to_string(options.seed) + ": " + what + "."};
}

/// What the policy itself says of its failure, else what the check of its answer says.
std::string why(const Policy& policy, const Status& valid) {
  const std::string own = policy.failure();
  return own.empty() ? valid.error().message : own;
}

void tell(QueuePolicy& policy, const QuestionContext& context, const RequestView& request,
          QueueEvent event) {
  observe(policy, {context, request, event});
}

/// Names the ranks that nobody was sent to.
Finding unused(const std::vector<std::int64_t>& chosen, std::int64_t questions) {
  std::string never;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i] == 0) never += (never.empty() ? "" : ", ") + std::to_string(i);
  }
  if (never.empty()) return {};
  return {true, "note: of " + std::to_string(chosen.size()) + " equal ranks, " + never +
                    " got none of " + text(questions) + " requests."};
}

/// A request that a rank works on, until so many others have come.
struct Assignment {
  std::size_t rank = 0;
  RequestView request;
};

void add_load(RankView& rank, const RequestView& request, std::int64_t sign) {
  rank.slots_free -= sign;
  rank.kv_blocks_free -= sign * blocks_for(request.positions_max(), rank.block_tokens);
  rank.running += sign;
  rank.context_tokens += sign * request.prompt;
  rank.queued += sign;
  rank.queued_tokens += sign * request.prompt;
  rank.uncached_tokens += sign * request.prompt;
  rank.work_ps += sign * request.work_ps;
}

void set_request(RouterQuestion& question, const RequestView& request) {
  question.request = request;
}

void set_request(BalancerQuestion& question, const RequestView& request) {
  question.request = request;
  question.request.done = question.request.total();
}

} // namespace

Finding everybody_is_served(QueuePolicy& policy, const SuiteOptions& options) {
  constexpr std::size_t kStanding = 32;
  constexpr std::int64_t kRoundUs = 50'000;
  Rng rng(options.seed);
  QueueQuestion question;
  std::uint64_t id = 0;
  const auto come = [&](std::int64_t now_us) {
    question.waiting.push_back(arriving_request(rng, ++id, now_us));
    tell(policy, context_at(now_us, id), question.waiting.back(), QueueEvent::entered);
  };
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    const std::int64_t now_us = (round + 1) * kRoundUs;
    while (question.waiting.size() < kStanding)
      come(now_us);
    question.context = context_at(now_us, static_cast<std::uint64_t>(round));
    const auto answer = ask(policy, question);
    if (const Status valid = question.check(answer); !valid.ok()) {
      return broken(round, options, why(policy, valid));
    }
    const auto first = question.waiting.begin() + answer.value->positions[0];
    tell(policy, question.context, *first, QueueEvent::served);
    question.waiting.erase(first);
  }
  const RequestView& oldest = question.waiting.front();
  const std::int64_t waited = options.rounds - oldest.arrival_us / kRoundUs;
  if (waited <= options.rounds / 2) return {};
  return broken(options.rounds, options,
                "a request of " + text(oldest.prompt) + " tokens and priority " +
                    text(oldest.priority) + " has waited for " + text(waited) +
                    " rounds while one was served in each; let age count in the order, or use "
                    "the policy with [queue.wait_bound] only");
}

template <class Question>
Finding every_rank_is_used(typename Question::Kind& policy, const SuiteOptions& options) {
  constexpr std::size_t kRanks = 8;
  constexpr std::size_t kAtOnce = 24;
  constexpr std::int64_t kTries = 100;
  constexpr std::int64_t kPauseUs = 10'000;
  const std::int64_t questions = options.rounds / 10;
  Rng rng(options.seed);
  Question question;
  question.ranks = equal_ranks(kRanks);
  std::vector<std::int64_t> chosen(kRanks, 0);
  std::deque<Assignment> assigned;
  std::int64_t now_us = 1'000'000;
  std::int64_t tries = 0;
  for (std::int64_t i = 0; i < questions;) {
    const auto id = static_cast<std::uint64_t>(i);
    if (tries == 0) set_request(question, arriving_request(rng, 1 + id, now_us));
    question.context = context_at(now_us, id);
    const auto answer = ask(policy, question);
    if (const Status valid = question.check(answer); !valid.ok()) {
      return broken(i, options, why(policy, valid));
    }
    if (!answer.value) {
      if (++tries == kTries) {
        return broken(i, options,
                      "every rank has room, and in " + text(kTries) +
                          " questions about one request none was chosen; without a rank, "
                          "name in retry_at_us when to ask again, within a second");
      }
      // Nothing else happens here: whoever names no time is asked about the same instant again.
      if (answer.retry_at_us != 0) now_us = again_us(answer.retry_at_us, kPauseUs, now_us);
      continue;
    }
    now_us += kPauseUs;
    const auto place = static_cast<std::size_t>(raw(answer.value->rank));
    ++chosen[place];
    assigned.push_back({place, question.request});
    add_load(question.ranks[place], question.request, 1);
    if (assigned.size() > kAtOnce) {
      add_load(question.ranks[assigned.front().rank], assigned.front().request, -1);
      assigned.pop_front();
    }
    tries = 0;
    ++i;
  }
  return unused(chosen, questions);
}

template Finding every_rank_is_used<RouterQuestion>(PrefillRouter&, const SuiteOptions&);
template Finding every_rank_is_used<BalancerQuestion>(DecodeBalancer&, const SuiteOptions&);

Finding prompts_end(PrefillChunker& policy, const SuiteOptions& options) {
  constexpr std::uint64_t kPrompts = 8;
  Rng rng(options.seed);
  ChunkerQuestion question;
  question.query = {{RankId{0}, Incarnation{1}}, 512};
  std::int64_t now_us = 1'000'000;
  for (std::uint64_t id = 1; id <= kPrompts; ++id) {
    question.requests.push_back(arriving_request(rng, id, now_us));
    question.requests.back().prompt = static_cast<std::int64_t>(1 + rng.below(1'000));
  }
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    question.context = context_at(now_us, static_cast<std::uint64_t>(round));
    question.context.step_budget_ps =
        policy.step_budget_ps(question.context.cost_model, question.query.step_tokens_max);
    const auto answer = ask(policy, question);
    if (const Status valid = question.check(answer); !valid.ok()) {
      return broken(round, options, why(policy, valid));
    }
    now_us = answer.value ? now_us + 1'000 : again_us(answer.retry_at_us, 1'000, now_us);
    if (!answer.value) continue;
    for (const Share& share : answer.value->shares)
      question.requests[share.candidate].done += share.tokens;
    std::erase_if(question.requests,
                  [](const RequestView& request) { return request.remaining() == 0; });
    if (question.requests.empty()) return {};
  }
  return broken(options.rounds, options,
                text(static_cast<std::int64_t>(question.requests.size())) +
                    " of 8 prompts of at most 1000 tokens are not cut to their end");
}

} // namespace troupe::sched::conformance
