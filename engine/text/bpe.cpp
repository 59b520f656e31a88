#include "engine/text/bpe.hpp"

#include <bit>
#include <cstddef>
#include <queue>

namespace troupe::text {
namespace {

/// Up to this length a scan for the best merge is faster than a queue.
constexpr std::size_t kShortPieceMax = 48;

std::uint64_t pair_of(std::int32_t left, std::int32_t right) noexcept {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

std::size_t slot_of(std::uint64_t pair, std::size_t mask) noexcept {
  pair ^= pair >> 29;
  pair *= 0x9E3779B97F4A7C15ULL;
  return static_cast<std::size_t>(pair >> 32) & mask;
}

} // namespace

Bpe::Bpe(const std::array<std::int32_t, 256>& byte_ids, const std::vector<Merge>& merges)
    : byte_ids_(byte_ids), table_(std::bit_ceil(2 * merges.size() + 2)) {
  const std::size_t mask = table_.size() - 1;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::uint64_t pair = pair_of(merges[rank].left, merges[rank].right);
    std::size_t slot = slot_of(pair, mask);
    while (table_[slot].pair != kNoPair && table_[slot].pair != pair)
      slot = (slot + 1) & mask;
    table_[slot] = {pair, static_cast<std::int32_t>(rank), merges[rank].merged};
  }
}

const Bpe::Entry* Bpe::find(std::int32_t left, std::int32_t right) const noexcept {
  const std::uint64_t pair = pair_of(left, right);
  const std::size_t mask = table_.size() - 1;
  for (std::size_t slot = slot_of(pair, mask);; slot = (slot + 1) & mask) {
    if (table_[slot].pair == pair) return &table_[slot];
    if (table_[slot].pair == kNoPair) return nullptr;
  }
}

void Bpe::encode(std::string_view piece, std::vector<std::int32_t>& ids) const {
  if (piece.size() <= kShortPieceMax) {
    encode_short(piece, ids);
  } else {
    encode_long(piece, ids);
  }
}

void Bpe::encode_short(std::string_view piece, std::vector<std::int32_t>& ids) const {
  std::array<std::int32_t, kShortPieceMax> symbols{};
  std::array<const Entry*, kShortPieceMax> merges{}; // of symbol i and its right neighbour
  std::size_t count = 0;
  for (const char c : piece)
    symbols[count++] = byte_ids_[static_cast<unsigned char>(c)];
  for (std::size_t i = 0; i + 1 < count; ++i)
    merges[i] = find(symbols[i], symbols[i + 1]);
  while (count > 1) {
    std::size_t best = count;
    for (std::size_t i = 0; i + 1 < count; ++i) {
      if (merges[i] != nullptr && (best == count || merges[i]->rank < merges[best]->rank)) best = i;
    }
    if (best == count) break;
    symbols[best] = merges[best]->merged;
    for (std::size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      merges[i] = merges[i + 1];
    }
    --count;
    merges[best] = best + 1 < count ? find(symbols[best], symbols[best + 1]) : nullptr;
    if (best > 0) merges[best - 1] = find(symbols[best - 1], symbols[best]);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.begin() + static_cast<std::ptrdiff_t>(count));
}

void Bpe::encode_long(std::string_view piece, std::vector<std::int32_t>& ids) const {
  struct Symbol {
    std::int32_t id;
    std::ptrdiff_t previous;
    std::ptrdiff_t next;
    bool live = true;
  };
  struct Candidate {
    std::int32_t rank;
    std::ptrdiff_t at;
    std::int32_t merged;
    bool operator>(const Candidate& other) const noexcept {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  const auto count = static_cast<std::ptrdiff_t>(piece.size());
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const auto byte = static_cast<unsigned char>(piece[static_cast<std::size_t>(i)]);
    symbols.push_back({byte_ids_[byte], i - 1, i + 1 < count ? i + 1 : -1});
  }
  const auto at = [&symbols](std::ptrdiff_t i) -> Symbol& {
    return symbols[static_cast<std::size_t>(i)];
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto offer = [&](std::ptrdiff_t i) {
    if (i < 0 || at(i).next < 0) return;
    const Entry* entry = find(at(i).id, at(at(i).next).id);
    if (entry != nullptr) queue.push({entry->rank, i, entry->merged});
  };
  for (std::ptrdiff_t i = 0; i < count; ++i)
    offer(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = at(best.at);
    if (!left.live || left.next < 0) continue;
    Symbol& right = at(left.next);
    // A candidate from before another merge: its neighbours may have changed since.
    const Entry* now = find(left.id, right.id);
    if (now == nullptr || now->merged != best.merged) continue;
    left.id = best.merged;
    right.live = false;
    left.next = right.next;
    if (left.next >= 0) at(left.next).previous = best.at;
    offer(left.previous);
    offer(best.at);
  }
  for (std::ptrdiff_t i = 0; i >= 0; i = at(i).next)
    ids.push_back(at(i).id);
}

} // namespace troupe::text
