// Writes entries into segment files of a folder, and keeps the folder within its size.

#pragma once

#include "actors/records/ledger_codec.hpp"
#include "schedulers/core/result.hpp"
#include "schedulers/stage/ledger_entry.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace troupe::actors {

/// Thread: one owner.
class LedgerWriter {
public:
  /// A full ledger is so many segments; the oldest one goes first.
  static constexpr std::int64_t kSegments = 8;

  /// Makes `folder` if it is missing and begins a segment after those that are there. Errors name
  /// the folder and what the system said.
  static Result<LedgerWriter> open(const std::string& folder, std::int64_t size_max_bytes);

  LedgerWriter(LedgerWriter&&) noexcept;
  LedgerWriter& operator=(LedgerWriter&&) noexcept;
  ~LedgerWriter();

  /// Of the entry that comes next: after all that the folder holds.
  std::uint64_t next_number() const noexcept;

  /// Takes an entry in; written by write_out() at the latest.
  void add(const sched::LedgerEntry& entry);

  /// Writes what was taken in. What cannot be written is lost, and said once.
  void write_out();

  /// Entries that could not be written.
  std::int64_t lost() const noexcept;

private:
  struct State;
  explicit LedgerWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

} // namespace troupe::actors
