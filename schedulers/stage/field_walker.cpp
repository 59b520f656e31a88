#include "schedulers/stage/field_walker.hpp"

#include <algorithm>

namespace troupe::sched {

std::string difference_text(const FieldRows& then, const FieldRows& now) {
  constexpr std::size_t kShown = 3;
  std::string out;
  std::size_t count = 0;
  const std::size_t rows = std::max(then.size(), now.size());
  for (std::size_t i = 0; i < rows; ++i) {
    const bool in_both = i < then.size() && i < now.size();
    if (in_both && then[i] == now[i]) continue;
    const bool aligned = in_both && then[i].first == now[i].first;
    if (++count <= kShown) {
      if (count > 1) out += "; ";
      out += (i < then.size() ? then[i] : now[i]).first + ": then " +
             (i < then.size() ? then[i].second : "nothing") + ", now " +
             (aligned          ? now[i].second
              : i < now.size() ? now[i].first + " " + now[i].second
                               : "nothing");
    }
    if (!aligned) break; // One of them is longer from here on.
  }
  if (count > kShown) out += "; and " + std::to_string(count - kShown) + " more";
  return out;
}

} // namespace troupe::sched
