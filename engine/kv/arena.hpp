// The memory behind KvBlockIds and StateSlotIds: bytes only; who owns which id is accounted
// elsewhere.

#pragma once

#include "engine/kv/layout.hpp"
#include "schedulers/core/ids.hpp"

#include <cstddef>
#include <span>

namespace troupe::engine {

/// Slots and blocks of one engine in one mapping, zero at first and committed when touched.
///
///   Owns   the mapping; spans are valid while the arena lives
class Arena {
public:
  /// @param slots, blocks  both at least 1
  ///   Errors   no_room when the system refuses the memory
  static Result<Arena> create(const KvLayout& layout, std::int64_t slots, std::int64_t blocks);

  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  std::int64_t slots() const noexcept { return slots_; }
  std::int64_t blocks() const noexcept { return blocks_; }

  bool has(StateSlotId slot) const noexcept { return raw(slot) >= 0 && raw(slot) < slots_; }
  bool has(KvBlockId block) const noexcept { return raw(block) >= 0 && raw(block) < blocks_; }

  /// @pre has(id)
  std::span<std::byte> slot(StateSlotId id) const;
  std::span<std::byte> block(KvBlockId id) const;

private:
  Arena() = default;

  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  std::int64_t slots_ = 0;
  std::int64_t blocks_ = 0;
  std::int64_t slot_bytes_ = 0;
  std::int64_t block_bytes_ = 0;
};

} // namespace troupe::engine
