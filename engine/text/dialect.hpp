// Token spellings and tag names of the two chat dialects, as data.
//
// Ids differ between models, so tokens are always resolved by their spelling.

#pragma once

#include <cstdint>
#include <string_view>

namespace troupe::text {

enum class Dialect : std::uint8_t { v4, v4_1 };

/// Spellings that both dialects share.
inline constexpr std::string_view kBeginOfSentence = "<｜begin▁of▁sentence｜>";
inline constexpr std::string_view kEndOfSentence = "<｜end▁of▁sentence｜>";
inline constexpr std::string_view kSystemToken = "<｜System｜>";
inline constexpr std::string_view kUserToken = "<｜User｜>";
inline constexpr std::string_view kAssistantToken = "<｜Assistant｜>";
inline constexpr std::string_view kReminderToken = "<｜latest_reminder｜>";
inline constexpr std::string_view kThinkBegin = "<think>";
inline constexpr std::string_view kThinkEnd = "</think>";
inline constexpr std::string_view kDsmlToken = "｜DSML｜";

/// Names that stand after `｜DSML｜` in a tag; V4.1 puts a space before them.
struct DsmlTags {
  std::string_view block;
  std::string_view invoke;
  std::string_view parameter;
};

constexpr DsmlTags dsml_tags(Dialect dialect) noexcept {
  return dialect == Dialect::v4 ? DsmlTags{"tool_calls", "invoke", "parameter"}
                                : DsmlTags{" calls", " invoke", " parameter"};
}

} // namespace troupe::text
