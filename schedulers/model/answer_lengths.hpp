// How long answers get: quantiles of the last finished ones, by class of request.
//
// Requests whose limits are of the same power of two are one class: who may say much says more.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::sched {

/// Windows of finished answers.
///
///   Cost   O(kWindow) a question, O(1) an answer
class AnswerLengths {
public:
  static constexpr std::size_t kWindow = 128; ///< Answers of a class that count.
  static constexpr std::size_t kFewest = 8;   ///< With fewer answers nothing is expected.

  /// Class of requests with that limit: the bits of the limit, less one.
  static std::uint32_t class_of(std::int64_t new_tokens_max) noexcept;

  void add(std::int64_t new_tokens_max, std::int64_t output_tokens);

  /// The length that `permille` of the last answers of this class did not exceed; 0 = not known.
  std::int64_t quantile(std::int64_t new_tokens_max, std::int64_t permille) const;

private:
  struct Window {
    std::vector<std::int64_t> lengths; ///< Ring once full.
    std::size_t oldest = 0;
  };
  std::array<Window, 64> classes_;
};

} // namespace troupe::sched
