#include "lib/socket/chunks.hpp"

namespace rdmc::sockets {

SlotMemory::SlotMemory(memory::Arena arena, RemoteKey key, std::uint64_t address)
    : arena_(std::move(arena)), key_(key), address_(address) {
  free_.reserve(kSlots);
  for (std::uint32_t slot = kSlots; slot > 0; --slot) free_.push_back(slot - 1);
}

std::optional<std::uint32_t> SlotMemory::take() {
  if (free_.empty()) return std::nullopt;
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

std::shared_ptr<std::byte[]> CopyPool::take() {
  std::unique_ptr<std::byte[]> memory;
  if (free_.empty()) {
    memory = std::make_unique_for_overwrite<std::byte[]>(kBytes);
  } else {
    memory = std::move(free_.back());
    free_.pop_back();
  }
  return {memory.release(), [pool = shared_from_this()](std::byte* back) {
            std::unique_ptr<std::byte[]> owned(back);
            if (pool->free_.size() < kKept) pool->free_.push_back(std::move(owned));
          }};
}

}  // namespace rdmc::sockets
