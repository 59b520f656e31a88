// What every fuzz target needs: its entry point, a loud end, and a folder in memory.
//
// A target takes any bytes; it may refuse them, never crash, hang, or break what it promises.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// Runs one input. Always returns 0; a finding ends the process.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace troupe::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Ends the process with `what` when a promise does not hold.
void require(bool holds, const char* what);

/// A folder of this process, in memory where the machine has such; removed at its end.
const std::string& scratch_folder();

/// Replaces the file at `path`.
void write_scratch(const std::string& path, std::string_view bytes);

} // namespace troupe::fuzz
