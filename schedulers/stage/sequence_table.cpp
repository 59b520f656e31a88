#include "schedulers/stage/sequence_table.hpp"

#include "schedulers/core/check.hpp"

#include <algorithm>
#include <set>

namespace troupe::sched {

Sequence* SequenceTable::add(const RequestRef& ref, std::int64_t blocks) {
  TROUPE_CHECK(sequences_.count(ref) == 0, "a sequence is added once");
  if (slots_.free() < 1 || !blocks_.reserve(blocks)) return nullptr;
  Sequence sequence;
  sequence.ref = ref;
  sequence.serial = ++serial_;
  sequence.slot = *slots_.take();
  sequence.blocks = BlockTable(blocks);
  by_serial_.push_back(&sequences_.emplace(ref, std::move(sequence)).first->second);
  recent_.make_room(sequences_.size());
  return by_serial_.back();
}

bool SequenceTable::drop(Sequence& sequence) {
  sequence.doomed = true;
  return settle(sequence);
}

bool SequenceTable::settle(Sequence& sequence) {
  if (!sequence.doomed || sequence.in_flight > 0 || sequence.engine) return false;
  sequence.blocks.release(blocks_);
  slots_.give_back(sequence.slot);
  by_serial_.erase(place_of(sequence.serial));
  recent_.forget(sequence.ref);
  sequences_.erase(RequestRef(sequence.ref));
  return true;
}

Sequence* SequenceTable::find(const RequestRef& ref) {
  Sequence* found = find_any(ref);
  return found != nullptr && !found->doomed ? found : nullptr;
}

Sequence* SequenceTable::find_any(const RequestRef& ref) {
  if (Sequence* kept = recent_.find(ref)) return kept;
  const auto found = sequences_.find(ref);
  if (found == sequences_.end()) return nullptr;
  recent_.keep(ref, &found->second);
  return &found->second;
}

std::vector<Sequence*>::iterator SequenceTable::place_of(std::uint64_t serial) {
  const auto place = std::lower_bound(
      by_serial_.begin(), by_serial_.end(), serial,
      [](const Sequence* one, std::uint64_t wanted) { return one->serial < wanted; });
  const bool is_here = place != by_serial_.end() && (*place)->serial == serial;
  return is_here ? place : by_serial_.end();
}

Sequence* SequenceTable::find_serial(std::uint64_t serial) {
  const auto place = place_of(serial);
  return place == by_serial_.end() || (*place)->doomed ? nullptr : *place;
}

Status SequenceTable::check() const {
  if (Status status = blocks_.check(); !status.ok()) return status;
  if (Status status = slots_.check(); !status.ok()) return status;
  std::set<KvBlockId> owned;
  std::set<StateSlotId> slots;
  std::int64_t held = 0;
  std::int64_t capacity = 0;
  for (const auto& [ref, sequence] : sequences_) {
    capacity += sequence.blocks.capacity();
    held += static_cast<std::int64_t>(sequence.blocks.blocks().size());
    owned.insert(sequence.blocks.blocks().begin(), sequence.blocks.blocks().end());
    slots.insert(sequence.slot);
  }
  if (held != static_cast<std::int64_t>(owned.size()) || held != blocks_.used() ||
      capacity != blocks_.used() + blocks_.promised()) {
    return Status(ErrorCode::mismatch, "kv blocks and their owners disagree");
  }
  if (slots.size() != sequences_.size() ||
      static_cast<std::int64_t>(slots.size()) != slots_.used()) {
    return Status(ErrorCode::mismatch, "state slots and their owners disagree");
  }
  return {};
}

std::int64_t SequenceTable::decoding() const noexcept {
  std::int64_t count = 0;
  for (const Sequence* sequence : by_serial_)
    count += sequence->decodes() ? 1 : 0;
  return count;
}

} // namespace troupe::sched
