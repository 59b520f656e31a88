#include "actors/ledger_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace troupe::actors {

std::string fault_text(const LedgerFault& fault) {
  if (fault.bytes == 0) return fmt::format("{}: {}", fault.file, fault.what);
  return fmt::format("{}:{}: {}; {} bytes are skipped{}", fault.file, fault.offset, fault.what,
                     fault.bytes, fault.torn ? ", the last ones of this segment" : "");
}

Result<LedgerReader> LedgerReader::open(const std::string& folder) {
  std::error_code code;
  if (!std::filesystem::is_directory(folder, code)) {
    return Error{ErrorCode::not_found,
                 folder + ": found no folder, expected a ledger; a batch job keeps its own in "
                          "OUTPUT.ledger unless ledger.directory says otherwise"};
  }
  auto segments = segment_numbers(folder);
  if (segments.empty()) {
    return Error{ErrorCode::not_found,
                 folder + ": found no ledger-NNNNNNNN.seg in it, expected the segments of a "
                          "ledger; was the job run with ledger.level = \"off\"?"};
  }
  return LedgerReader(folder, std::move(segments));
}

std::optional<sched::LedgerEntry> LedgerReader::next() {
  for (;;) {
    if (!segment_) {
      if (at_ == segments_.size()) return std::nullopt;
      begin_segment();
      continue;
    }
    if (auto set = set_of_head()) return set;
    const auto frame = segment_->next();
    if (!frame) {
      end_segment();
      continue;
    }
    auto entry = decoder_.decode(frame->bytes);
    if (!entry.ok()) {
      segment_->give_up(*frame, entry.error().message);
      continue;
    }
    take(*entry);
    return std::move(*entry);
  }
}

void LedgerReader::begin_segment() {
  const std::string path = segment_path(folder_, segments_[at_]);
  if (at_ > 0 && segments_[at_] != segments_[at_ - 1] + 1) {
    faults_.push_back(
        {folder_, 0, 0, false,
         fmt::format("segments {} to {} are missing", segments_[at_ - 1] + 1, segments_[at_] - 1)});
  }
  auto opened = SegmentReader::open(path);
  if (opened.ok()) {
    segment_.emplace(std::move(*opened));
    head_sets_ = 0;
    builds_.insert(segment_->head().build);
    return;
  }
  std::error_code code;
  const auto size = std::filesystem::file_size(path, code);
  faults_.push_back(
      {path, 0, code ? 0 : static_cast<std::int64_t>(size), false, opened.error().message});
  ++at_;
}

void LedgerReader::end_segment() {
  if (const auto& fault = segment_->fault()) {
    faults_.push_back({segment_path(folder_, segments_[at_]), fault->offset, fault->bytes,
                       fault->torn, fault->what});
  }
  segment_.reset();
  ++at_;
}

std::optional<sched::LedgerEntry> LedgerReader::set_of_head() {
  const SegmentHead& head = segment_->head();
  while (head_sets_ < head.live.size()) {
    const sched::SetLive& live = head.live[head_sets_++];
    std::string bytes = encode(live);
    std::string& told = sets_[live.set.epoch];
    if (told == bytes) continue;
    told = std::move(bytes);
    return sched::LedgerEntry{head.first_number, head.opened_at_us, {}, live};
  }
  return std::nullopt;
}

void LedgerReader::take(const sched::LedgerEntry& entry) {
  if (next_number_ && entry.number > *next_number_) {
    lost_ += static_cast<std::int64_t>(entry.number - *next_number_);
  }
  next_number_ = entry.number + 1;
  if (const auto* live = std::get_if<sched::SetLive>(&entry.what)) {
    sets_[live->set.epoch] = encode(*live);
  }
}

Result<std::vector<LedgerFault>>
read_ledger(const std::string& folder, const std::function<void(sched::LedgerEntry&&)>& take) {
  auto reader = LedgerReader::open(folder);
  if (!reader.ok()) return reader.error();
  while (auto entry = reader->next())
    take(std::move(*entry));
  return reader->faults();
}

namespace {

/// Number after the last entry of a segment.
std::uint64_t end_of(SegmentReader& segment, LedgerDecoder& decoder, PolicyEpoch& highest) {
  std::uint64_t next_number = segment.head().first_number;
  for (const sched::SetLive& live : segment.head().live)
    highest = std::max(highest, live.set.epoch);
  std::string last;
  while (const auto frame = segment.next()) {
    last = frame->bytes;
    if (frame->kind != FrameKind::set_live) continue;
    const auto entry = decoder.decode(frame->bytes);
    const auto* live = entry.ok() ? std::get_if<sched::SetLive>(&entry->what) : nullptr;
    if (live != nullptr) highest = std::max(highest, live->set.epoch);
  }
  if (!last.empty()) {
    const auto entry = decoder.decode(last);
    if (entry.ok()) next_number = entry->number + 1;
  }
  return segment.fault() ? next_number + 1 : next_number; // Of what is torn, one at least.
}

} // namespace

LedgerEnd end_of_ledger(const std::string& folder) {
  const auto segments = segment_numbers(folder);
  LedgerEnd end;
  LedgerDecoder decoder;
  bool is_last = true;
  for (auto at = segments.rbegin(); at != segments.rend(); ++at) {
    auto segment = SegmentReader::open(segment_path(folder, *at));
    if (!segment.ok()) continue;
    const std::uint64_t next_number = end_of(*segment, decoder, end.highest_epoch);
    if (is_last) end.next_number = next_number;
    is_last = false;
    if (raw(end.highest_epoch) > 0) break;
  }
  return end;
}

} // namespace troupe::actors
