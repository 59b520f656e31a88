// Enumerates every run of a test whose only freedom is a sequence of bounded choices.
//
//   Choices choices;
//   do { ... choices.below(n) ... } while (choices.next());

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::testing {

class Choices {
public:
  /// A number in [0, n); every one of them in some run. @pre n >= 1, and n depends only on the
  /// choices before
  std::uint32_t below(std::uint32_t n) {
    if (at_ == taken_.size()) taken_.push_back({0, n});
    return taken_[at_++].choice;
  }

  /// Prepares the next run; false when there is none left.
  bool next() {
    at_ = 0;
    while (!taken_.empty() && taken_.back().choice + 1 == taken_.back().bound)
      taken_.pop_back();
    if (taken_.empty()) return false;
    ++taken_.back().choice;
    return true;
  }

  /// The choices of this run, to print with a failure.
  std::string text() const {
    std::string out;
    for (std::size_t i = 0; i < at_; ++i) {
      out += std::to_string(taken_[i].choice);
      out += ' ';
    }
    return out;
  }

private:
  struct Taken {
    std::uint32_t choice;
    std::uint32_t bound;
  };
  std::vector<Taken> taken_;
  std::size_t at_ = 0;
};

} // namespace troupe::testing
