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

}  // namespace rdmc::sockets
