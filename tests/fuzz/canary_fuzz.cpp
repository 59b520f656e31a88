// A target with a planted bug: a run that finds nothing here looks at nothing.

#include "tests/fuzz/fuzz_target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace std::string_view_literals;
  troupe::fuzz::require(troupe::fuzz::text_of(data, size) != "bird"sv, "the planted bug");
  return 0;
}
