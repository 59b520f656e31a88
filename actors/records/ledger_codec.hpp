// Entries of the decision ledger ↔ bytes.

#pragma once

#include "schedulers/core/result.hpp"
#include "schedulers/stage/ledger_entry.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::actors {

/// What a segment of a ledger begins with, so that it can be read alone.
struct SegmentHead {
  std::uint32_t version = 1; ///< Of the format.
  std::string build;         ///< Version of the program that wrote it.
  std::uint64_t segment = 0;
  std::uint64_t first_number = 0; ///< Of the entry that comes first, or would.
  std::int64_t opened_unix_us = 0;
  std::int64_t opened_at_us = 0;    ///< The same moment on the clock of the entries.
  std::vector<sched::SetLive> live; ///< Sets live before its first entry, ascending by epoch.
};

/// Entries → bytes. Keeps its memory from call to call. Thread: one owner.
class LedgerEncoder {
public:
  LedgerEncoder();
  ~LedgerEncoder();

  /// Appends the bytes of `entry` to `out`.
  void encode(const sched::LedgerEntry& entry, std::string& out);

private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Bytes → entries. Keeps its memory from call to call. Thread: one owner.
class LedgerDecoder {
public:
  LedgerDecoder();
  ~LedgerDecoder();
  LedgerDecoder(LedgerDecoder&&) noexcept;
  LedgerDecoder& operator=(LedgerDecoder&&) noexcept;

  /// Errors say what is no entry, or contradicts itself.
  Result<sched::LedgerEntry> decode(std::string_view bytes);

private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string encode(const SegmentHead& head);
Result<SegmentHead> decode_segment_head(std::string_view bytes);

/// The bytes of a set: equal for equal sets.
std::string encode(const sched::SetLive& live);

} // namespace troupe::actors
