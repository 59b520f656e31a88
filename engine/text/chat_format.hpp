// The texts of a checkpoint's chat format, read from encoding.json beside it.
//
// Wording differs between revisions of one model, so none of it is compiled in; token spellings and
// tag names are those of a dialect (dialect.hpp).

#pragma once

#include "engine/text/dialect.hpp"
#include "schedulers/core/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::text {

/// encoding.json, validated.
struct ChatFormat {
  Dialect dialect = Dialect::v4_1;
  std::string effort_line; ///< With "{n}" where the number goes.
  std::vector<std::pair<std::string, std::int64_t>>
      effort_names;                ///< Name → n (1..100), file order.
  std::int64_t effort_default = 0; ///< n when the request names none.
  std::string tools_header;
  std::string tools_footer;
  std::string response_format_header;

  /// The n of an effort name, or nothing.
  std::optional<std::int64_t> effort_of(std::string_view name) const;
  /// The largest n of the table.
  std::int64_t effort_max() const noexcept;
};

/// Reads encoding.json. Errors name file and key; not_found when there is none.
Result<ChatFormat> load_chat_format(const std::string& path);

/// The same from memory; `name` stands for the file in messages.
Result<ChatFormat> parse_chat_format(std::string_view json, const std::string& name);

} // namespace troupe::text
