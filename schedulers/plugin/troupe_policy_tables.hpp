// Makes the C tables of policies that derive from the classes of troupe_policy.hpp, which includes
// this file.

#pragma once

#include "schedulers/plugin/troupe_policy.hpp"

namespace troupe::sdk {
namespace detail {

inline void say(char* out, std::size_t size, const char* text) noexcept {
  if (out == nullptr || size == 0) return;
  const std::size_t n = std::min(size - 1, std::strlen(text));
  std::memcpy(out, text, n);
  out[n] = '\0';
}

/// Runs `body` of an answer; an exception becomes a failed call.
template <class Answer, class Body>
std::int32_t guarded(Answer* answer, const Body& body) noexcept {
  try {
    return body();
  } catch (const std::exception& error) {
    say(answer->message, answer->message_size, error.what());
  } catch (...) {
    say(answer->message, answer->message_size, "an exception of unknown type");
  }
  return TROUPE_FAILED;
}

template <class P>
void* create(const char* options, std::size_t /*options_len*/, char* error,
             std::size_t error_size) noexcept {
  try {
    if constexpr (std::is_constructible_v<P, const Options&>) {
      return new P(Options(options));
    } else {
      return new P();
    }
  } catch (const std::exception& failure) {
    say(error, error_size, failure.what());
  } catch (...) {
    say(error, error_size, "an exception of unknown type");
  }
  return nullptr;
}

template <class P>
void destroy(void* self) noexcept {
  delete static_cast<P*>(self);
}

template <class P>
std::size_t export_state(void* self, std::uint8_t* out, std::size_t cap) noexcept {
  try {
    const std::string state = static_cast<const P*>(self)->export_state();
    if (!state.empty() && state.size() <= cap) std::memcpy(out, state.data(), state.size());
    return state.size();
  } catch (...) {
    return 0;
  }
}

template <class P>
std::int32_t import_state(void* self, const std::uint8_t* in, std::size_t len) noexcept {
  try {
    const std::string_view state(reinterpret_cast<const char*>(in), in == nullptr ? 0 : len);
    return static_cast<P*>(self)->import_state(state) ? 0 : 1;
  } catch (...) {
    return 1;
  }
}

inline std::int32_t answered(std::uint32_t& reason, std::uint32_t given) noexcept {
  reason = given;
  return TROUPE_DONE;
}

template <class Answer>
std::int32_t concluded(Answer* answer, const Verdict& verdict) noexcept {
  answer->reason = verdict.reason;
  answer->retry_at_us = verdict.retry_at_us;
  return verdict.status;
}

template <class P>
std::int32_t ask_queue(void* self, const troupe_queue_question* question, const troupe_call* call,
                       troupe_queue_answer* answer) noexcept {
  return guarded(answer, [&] {
    const Requests waiting(question->waiting);
    Order order(answer->positions, waiting.size());
    return answered(answer->reason, static_cast<P*>(self)->order(waiting, Call(*call), order));
  });
}

template <class P>
void tell_queue(void* self, const troupe_request_view* request, std::size_t /*request_size*/,
                std::uint32_t event, const troupe_call* call) noexcept {
  try {
    static_cast<P*>(self)->observe(*request, event, Call(*call));
  } catch (...) {
    // What was not learned costs a worse choice later, nothing more.
  }
}

template <class P>
std::int32_t ask_router(void* self, const troupe_router_question* question, const troupe_call* call,
                        troupe_placement_answer* answer) noexcept {
  return guarded(answer, [&] {
    const PrefillRouter::Question asked{*question->request, Ranks(question->ranks),
                                        question->local_hit_tokens};
    Choice choice(*answer, asked.ranks);
    return concluded(answer, static_cast<P*>(self)->route(asked, Call(*call), choice));
  });
}

template <class P>
std::int32_t ask_balancer(void* self, const troupe_balancer_question* question,
                          const troupe_call* call, troupe_placement_answer* answer) noexcept {
  return guarded(answer, [&] {
    const DecodeBalancer::Question asked{*question->request, Ranks(question->ranks),
                                         question->source_rank, question->source_incarnation};
    Choice choice(*answer, asked.ranks);
    return concluded(answer, static_cast<P*>(self)->place(asked, Call(*call), choice));
  });
}

template <class P>
std::int32_t ask_chunker(void* self, const troupe_chunker_question* question,
                         const troupe_call* call, troupe_chunker_answer* answer) noexcept {
  return guarded(answer, [&] {
    const PrefillChunker::Question asked{Requests(question->requests), question->step_tokens_max,
                                         question->rank};
    Shares shares(answer->shares, answer->n, asked.requests.size());
    return concluded(answer, static_cast<P*>(self)->pack(asked, Call(*call), shares));
  });
}

template <class P>
std::int64_t ask_step_budget(void* self, const troupe_cost_model* model, std::size_t /*model_size*/,
                             const troupe_host* host, std::int64_t step_tokens_max) noexcept {
  try {
    return static_cast<const P*>(self)->step_budget_ps(*model, *host, step_tokens_max);
  } catch (...) {
    return 0;
  }
}

template <class P>
std::int32_t ask_admission(void* self, const troupe_admission_question* question,
                           const troupe_call* call, troupe_admission_answer* answer) noexcept {
  return guarded(answer, [&] {
    const auto given =
        static_cast<P*>(self)->admit(*question->request, *question->load, Call(*call));
    answer->admission = given.admit ? TROUPE_ADMIT : TROUPE_REJECT;
    return answered(answer->reason, given.reason);
  });
}

template <class P>
std::int32_t ask_handoff(void* self, const troupe_handoff_question* question,
                         const troupe_call* call, troupe_handoff_answer* answer) noexcept {
  return guarded(answer, [&] {
    answer->mode = TROUPE_HANDOFF_WHOLE;
    return concluded(answer, static_cast<P*>(self)->plan(*question, Call(*call)));
  });
}

template <class P>
std::int32_t ask_step(void* self, const troupe_step_question* question, const troupe_call* call,
                      troupe_step_answer* answer) noexcept {
  return guarded(answer, [&] {
    const Step::Question asked{Views<SliceView>(question->slices),
                               Views<DecodeView>(question->decodes), question->step_tokens_max};
    Shares slices(answer->slices, answer->n_slices, asked.slices.size());
    std::vector<std::uint32_t> decodes;
    const std::uint32_t reason =
        static_cast<P*>(self)->compose(asked, Call(*call), decodes, slices);
    answer->n_decodes = std::min(decodes.size(), asked.decodes.size());
    std::copy_n(decodes.begin(), answer->n_decodes, answer->decodes);
    return answered(answer->reason, reason);
  });
}

template <class P>
std::int32_t ask_overlap(void* self, const troupe_overlap_question* question,
                         const troupe_call* call, troupe_overlap_answer* answer) noexcept {
  return guarded(answer, [&] {
    const auto given = static_cast<P*>(self)->plan(*question->view, Call(*call));
    answer->plan_now = given.plan_now ? 1 : 0;
    answer->masks_under_verify = given.masks_under_verify ? 1 : 0;
    answer->arrival_tokens = given.arrival_tokens;
    return answered(answer->reason, given.reason);
  });
}

// One table a kind; the first argument only chooses the overload.

template <class P>
constexpr troupe_queue table(const troupe_queue*) {
  return {sizeof(troupe_queue), 0, ask_queue<P>, tell_queue<P>};
}
template <class P>
constexpr troupe_prefill_router table(const troupe_prefill_router*) {
  return {sizeof(troupe_prefill_router), 0, ask_router<P>};
}
template <class P>
constexpr troupe_decode_balancer table(const troupe_decode_balancer*) {
  return {sizeof(troupe_decode_balancer), 0, ask_balancer<P>};
}
template <class P>
constexpr troupe_prefill_chunker table(const troupe_prefill_chunker*) {
  return {sizeof(troupe_prefill_chunker), 0, ask_chunker<P>, ask_step_budget<P>};
}
template <class P>
constexpr troupe_admission table(const troupe_admission*) {
  return {sizeof(troupe_admission), 0, ask_admission<P>};
}
template <class P>
constexpr troupe_handoff table(const troupe_handoff*) {
  return {sizeof(troupe_handoff), 0, ask_handoff<P>};
}
template <class P>
constexpr troupe_step table(const troupe_step*) {
  return {sizeof(troupe_step), 0, ask_step<P>};
}
template <class P>
constexpr troupe_overlap table(const troupe_overlap*) {
  return {sizeof(troupe_overlap), 0, ask_overlap<P>};
}

template <class P>
inline constexpr auto kTable = table<P>(static_cast<const typename P::Table*>(nullptr));

} // namespace detail

/// One entry of TROUPE_PLUGIN. P is constructed with its Options, or with nothing.
///
/// @param name            as a policy file says it: a-z, 0-9 and _; none of the built-in names
/// @param options_schema  see troupe_policy in policy_abi.h; null when there are no options
template <class P>
constexpr troupe_policy policy(const char* name, const char* options_schema = nullptr) {
  static_assert(std::is_base_of_v<Policy, P> && !std::is_abstract_v<P>,
                "a policy derives from the class of its kind and overrides its pure method");
  static_assert(std::is_constructible_v<P, const Options&> || std::is_default_constructible_v<P>,
                "a policy is constructed with its options, or with nothing");
  return {sizeof(troupe_policy),
          0,
          P::kKind,
          name,
          options_schema,
          detail::create<P>,
          detail::destroy<P>,
          detail::export_state<P>,
          detail::import_state<P>,
          &detail::kTable<P>};
}

} // namespace troupe::sdk
