// Reads what a stage asked for out of its effects.

#pragma once

#include "schedulers/registry/policy_registry.hpp"
#include "schedulers/stage/effects.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace troupe::sched::testing {

/// All messages of type M, in order.
template <class M>
std::vector<M> sent(const Effects& effects) {
  std::vector<M> found;
  for (const Effect& effect : effects.list()) {
    const auto* send = std::get_if<Send>(&effect);
    if (send == nullptr) continue;
    if (const auto* message = std::get_if<M>(&send->message)) found.push_back(*message);
  }
  return found;
}

/// All effects of type E that are no messages, in order.
template <class E>
std::vector<E> asked(const Effects& effects) {
  std::vector<E> found;
  for (const Effect& effect : effects.list()) {
    if (const auto* wanted = std::get_if<E>(&effect)) found.push_back(*wanted);
  }
  return found;
}

inline std::vector<Timer> timers(const Effects& effects, TimerKind kind) {
  std::vector<Timer> found;
  for (const SetTimer& timer : asked<SetTimer>(effects)) {
    if (timer.kind == kind) found.push_back({timer.kind, timer.key});
  }
  return found;
}

inline const PolicyRegistry& builtins() {
  static const PolicyRegistry registry = [] {
    PolicyRegistry made;
    register_builtin_policies(made);
    return made;
  }();
  return registry;
}

constexpr RequestRef ref(std::uint64_t request, std::uint32_t attempt = 1) {
  return {RequestId{request}, Attempt{attempt}};
}
constexpr RankRef rank_ref(std::uint32_t rank, std::uint32_t incarnation = 1) {
  return {RankId{rank}, Incarnation{incarnation}};
}

inline Work work(std::int64_t prompt, std::int64_t new_tokens_max) {
  Work made;
  made.prompt.assign(static_cast<std::size_t>(prompt), 7);
  made.new_tokens_max = new_tokens_max;
  return made;
}

inline RankUp up(std::uint32_t rank, Role role, std::int64_t kv_blocks = 16, std::int64_t slots = 4,
                 std::uint32_t incarnation = 1) {
  return {rank_ref(rank, incarnation),
          role,
          std::string(role_name(role)) + "-" + std::to_string(rank),
          kv_blocks,
          4,
          slots,
          16,
          0};
}

} // namespace troupe::sched::testing
