#include "engine/kv/arena.hpp"

#include "schedulers/core/check.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <utility>

namespace troupe::engine {

Result<Arena> Arena::create(const KvLayout& layout, std::int64_t slots, std::int64_t blocks) {
  TROUPE_CHECK(slots > 0 && blocks > 0, "an arena needs a slot and a block");
  Arena arena;
  arena.slots_ = slots;
  arena.blocks_ = blocks;
  arena.slot_bytes_ = layout.slot_bytes;
  arena.block_bytes_ = layout.block_bytes;
  arena.bytes_ = static_cast<std::size_t>(slots * layout.slot_bytes + blocks * layout.block_bytes);
  void* base = ::mmap(nullptr, arena.bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return {ErrorCode::io_error,
            fmt::format("cannot map {} bytes for {} state slots and {} kv blocks: {}; lower "
                        "kv.memory, or raise the limit of memory (ulimit -v)",
                        arena.bytes_, slots, blocks, std::strerror(errno))};
  }
  arena.base_ = static_cast<std::byte*>(base);
  return arena;
}

Arena::Arena(Arena&& other) noexcept { *this = std::move(other); }

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(slots_, other.slots_);
  std::swap(blocks_, other.blocks_);
  std::swap(slot_bytes_, other.slot_bytes_);
  std::swap(block_bytes_, other.block_bytes_);
  return *this;
}

Arena::~Arena() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
}

std::span<std::byte> Arena::slot(StateSlotId id) const {
  TROUPE_CHECK(has(id), "state slot out of range");
  return {base_ + raw(id) * slot_bytes_, static_cast<std::size_t>(slot_bytes_)};
}

std::span<std::byte> Arena::block(KvBlockId id) const {
  TROUPE_CHECK(has(id), "kv block out of range");
  return {base_ + slots_ * slot_bytes_ + raw(id) * block_bytes_,
          static_cast<std::size_t>(block_bytes_)};
}

} // namespace troupe::engine
