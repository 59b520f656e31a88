#include "schedulers/model/answer_lengths.hpp"

#include <algorithm>
#include <bit>

namespace troupe::sched {

std::uint32_t AnswerLengths::class_of(std::int64_t new_tokens_max) noexcept {
  const auto limit = static_cast<std::uint64_t>(std::max<std::int64_t>(1, new_tokens_max));
  return static_cast<std::uint32_t>(std::bit_width(limit)) - 1;
}

void AnswerLengths::add(std::int64_t new_tokens_max, std::int64_t output_tokens) {
  Window& window = classes_[class_of(new_tokens_max)];
  if (window.lengths.size() < kWindow) {
    window.lengths.push_back(output_tokens);
    return;
  }
  window.lengths[window.oldest] = output_tokens;
  window.oldest = (window.oldest + 1) % kWindow;
}

std::int64_t AnswerLengths::quantile(std::int64_t new_tokens_max, std::int64_t permille) const {
  std::vector<std::int64_t> lengths = classes_[class_of(new_tokens_max)].lengths;
  if (lengths.size() < kFewest) return 0;
  const auto count = static_cast<std::int64_t>(lengths.size());
  const std::int64_t at =
      std::clamp<std::int64_t>((count * permille + 999) / 1000 - 1, 0, count - 1);
  std::nth_element(lengths.begin(), lengths.begin() + at, lengths.end());
  return std::max<std::int64_t>(1, lengths[static_cast<std::size_t>(at)]);
}

} // namespace troupe::sched
