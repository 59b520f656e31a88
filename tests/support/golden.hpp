// Text that is compared with a file of the tree; TROUPE_GOLDEN=write makes the files anew.

#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace troupe::test {

/// @param path  from the root of the tree
inline void expect_golden(const std::string& path, const std::string& text) {
  const std::string file = std::string(TROUPE_SOURCE_DIR) + "/" + path;
  const char* wanted = std::getenv("TROUPE_GOLDEN");
  if (wanted != nullptr && std::string(wanted) == "write") {
    std::ofstream(file, std::ios::binary) << text;
  }
  std::ostringstream kept;
  kept << std::ifstream(file, std::ios::binary).rdbuf();
  EXPECT_EQ(text, kept.str()) << path << "; TROUPE_GOLDEN=write rewrites it: review the difference";
}

} // namespace troupe::test
