// A target with a planted bug: a run that finds nothing here looks at nothing.

#include "tests/fuzz/fuzz_target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view kBug = "bird";
  troupe::fuzz::require(troupe::fuzz::text_of(data, size) != kBug, "the planted bug");
  return 0;
}
