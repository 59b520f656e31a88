// Batch lines that must be refused, as a table: the line, and what its one error must say. Read by
// a test of the readers and by one of the executable.

#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace troupe::test {

struct BadRequest {
  std::string name;
  std::string line; ///< Without newline; its custom_id is `name` where it can be read.
  std::string code;
  std::string param;              ///< Of a body that was read; "" = null.
  std::vector<std::string> parts; ///< Of the message.
  bool is_readable = true;        ///< The envelope is good: the request itself is refused.
  bool has_custom_id = true;      ///< The error line names it.
};

/// How a failed test shows it.
inline void PrintTo(const BadRequest& bad, std::ostream* out) { *out << bad.name; }

/// Every name once. No line has a newline; ids are those of a vocabulary of 4096 tokens.
std::vector<BadRequest> bad_requests();

} // namespace troupe::test
