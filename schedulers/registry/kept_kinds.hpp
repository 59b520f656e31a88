// Which kinds are recorded with their questions.

#pragma once

#include "schedulers/policy/questions.hpp"

#include <cstddef>
#include <string_view>
#include <utility>
#include <variant>

namespace troupe::sched {

/// Whether records of this kind carry their question, unless it is too large: only then can it be
/// asked again, by a shadow or a replay.
inline bool keeps_questions(std::string_view kind) noexcept {
  const auto is_one_of = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return (
        (decltype(std::variant_alternative_t<I, Asked>::element_type::question)::kKind == kind) ||
        ...);
  };
  return is_one_of(std::make_index_sequence<std::variant_size_v<Asked>>{});
}

} // namespace troupe::sched
