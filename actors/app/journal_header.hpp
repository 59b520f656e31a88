// What a file says about itself before the database library may touch it: a journal of ours, or
// something else that happens to stand at its place.

#pragma once

#include "schedulers/core/result.hpp"

#include <cstdint>
#include <string>

namespace troupe::app {

inline constexpr std::int64_t kJournalVersion = 1;
inline constexpr std::int64_t kJournalApplicationId = 0x74726F75; ///< "trou"

/// Nothing when there is no file at `path`, when it is empty, or when its header is that of a
/// journal; else mismatch or io_error. With a hot "-journal" beside it the header may be half
/// written, and the library rolls it back first: then nothing is judged here.
///
/// @post the file is as it was
Status check_journal_header(const std::string& path);

/// Refusals that both this and the tables' reader give.
Error foreign_journal(const std::string& path);
/// @param what  in words; printable
Error damaged_journal(const std::string& path, const std::string& what);
Error newer_journal(const std::string& path, std::int64_t version);

} // namespace troupe::app
