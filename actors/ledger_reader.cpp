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

bool is_damaged(const std::vector<LedgerFault>& faults) {
  return std::any_of(faults.begin(), faults.end(),
                     [](const LedgerFault& fault) { return !fault.is_expected; });
}

Result<LedgerReader> LedgerReader::open(const std::string& folder) {
  std::error_code code;
  if (!std::filesystem::is_directory(folder, code)) {
    return Error{ErrorCode::not_found,
                 folder + ": found no folder, expected a ledger; a batch job keeps its own in "
                          "OUTPUT.ledger unless ledger.directory says otherwise"};
  }
  if (std::filesystem::directory_iterator(folder, code); code) {
    return Error{ErrorCode::io_error, folder + ": the folder cannot be read: " + code.message() +
                                          "; expected a ledger that may be read"};
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
    if (take(*entry)) return std::move(*entry);
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
    if (segment_->head()) take_head(*segment_->head());
    return;
  }
  std::error_code code;
  const auto size = std::filesystem::file_size(path, code);
  faults_.push_back(
      {path, 0, code ? 0 : static_cast<std::int64_t>(size), false, opened.error().message});
  ++at_;
}

/// The run that wrote it went on behind what the one before had written.
void LedgerReader::take_head(const SegmentHead& head) {
  has_read_ = true;
  builds_.insert(head.build);
  if (!next_number_) next_number_ = head.first_number;
  // Of what is torn, end_of_ledger() leaves out one number.
  if (!faults_.empty() && faults_.back().torn && head.first_number <= *next_number_ + 1) {
    faults_.back().is_expected = true;
  }
}

void LedgerReader::end_segment() {
  end_repeated();
  const std::string path = segment_path(folder_, segments_[at_]);
  for (const SegmentFault& fault : segment_->faults()) {
    faults_.push_back({path, fault.offset, fault.bytes, fault.torn, fault.what,
                       fault.torn && at_ + 1 == segments_.size()});
  }
  segment_.reset();
  ++at_;
}

std::optional<sched::LedgerEntry> LedgerReader::set_of_head() {
  if (!segment_->head()) return std::nullopt;
  const SegmentHead& head = *segment_->head();
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

/// Whether it is a new one.
bool LedgerReader::take(const sched::LedgerEntry& entry) {
  has_read_ = true;
  if (next_number_ && entry.number < *next_number_) {
    if (repeated_ && entry.number != repeated_->second + 1) end_repeated();
    if (!repeated_) repeated_.emplace(entry.number, entry.number);
    repeated_->second = entry.number;
    return false;
  }
  end_repeated();
  if (next_number_) lost_ += static_cast<std::int64_t>(entry.number - *next_number_);
  next_number_ = entry.number + 1;
  if (const auto* live = std::get_if<sched::SetLive>(&entry.what)) {
    sets_[live->set.epoch] = encode(*live);
  }
  return true;
}

void LedgerReader::end_repeated() {
  if (!repeated_) return;
  faults_.push_back({segment_path(folder_, segments_[at_]), 0, 0, false,
                     fmt::format("entries {} to {} stand a second time or behind later ones; they "
                                 "are skipped",
                                 repeated_->first, repeated_->second)});
  repeated_.reset();
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

/// Number after the last entry of a segment; none when nothing of it can be read. Most entries need
/// not be decoded for that, unless the last one cannot be.
std::optional<std::uint64_t> end_of(const std::string& path, LedgerDecoder& decoder,
                                    PolicyEpoch& highest, bool decodes_all = false) {
  auto segment = SegmentReader::open(path);
  if (!segment.ok()) return std::nullopt;
  std::optional<std::uint64_t> next_number;
  if (segment->head()) {
    next_number = segment->head()->first_number;
    for (const sched::SetLive& live : segment->head()->live)
      highest = std::max(highest, live.set.epoch);
  }
  std::string last;
  const auto look = [&](std::string_view bytes) {
    const auto entry = decoder.decode(bytes);
    if (!entry.ok()) return false;
    next_number = entry->number + 1;
    const auto* live = std::get_if<sched::SetLive>(&entry->what);
    if (live != nullptr) highest = std::max(highest, live->set.epoch);
    return true;
  };
  while (const auto frame = segment->next()) {
    last = frame->bytes;
    if (decodes_all || frame->kind == FrameKind::set_live) look(frame->bytes);
  }
  if (!last.empty() && !decodes_all && !look(last)) return end_of(path, decoder, highest, true);
  if (next_number && segment->ends_in_fault()) ++*next_number; // Of what is torn, one at least.
  return next_number;
}

} // namespace

LedgerEnd end_of_ledger(const std::string& folder) {
  const auto segments = segment_numbers(folder);
  LedgerEnd end;
  LedgerDecoder decoder;
  bool is_last = true;
  for (auto at = segments.rbegin(); at != segments.rend(); ++at) {
    const auto next_number = end_of(segment_path(folder, *at), decoder, end.highest_epoch);
    if (!next_number) continue;
    if (is_last) end.next_number = *next_number;
    is_last = false;
    if (raw(end.highest_epoch) > 0) break;
  }
  return end;
}

} // namespace troupe::actors
