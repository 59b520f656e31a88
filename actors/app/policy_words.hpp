// The documents of the policy commands and of `troupe top` in words, for a terminal.

#pragma once

#include <string>
#include <string_view>

namespace troupe::app {

// Each takes the document as JSON text and gives lines that end with a newline. Pure.

std::string show_words(std::string_view document);
std::string diff_words(std::string_view document);
std::string history_words(std::string_view document);

/// One line, without newline: what is live now, and why.
std::string ended_words(std::string_view document);

/// A screen of `troupe top`.
std::string top_words(std::string_view document);

} // namespace troupe::app
