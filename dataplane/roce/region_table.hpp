// The memory that peers may write into, by remote key: what a NIC keeps in its translation table. Pure. The
// owner adds and revokes; the responder resolves each packet's target. Addresses on the wire are offsets
// chosen by the owner (`remote_address`), so that nothing of this process's layout is told to anybody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>

#include "dataplane/base/types.hpp"

namespace rdmc::roce {

class RegionTable {
 public:
  /// False if the key is taken.
  bool add(RemoteKey key, std::uint64_t remote_address, std::span<std::byte> memory) {
    return regions_.try_emplace(value_of(key), Region{remote_address, memory}).second;
  }
  void revoke(RemoteKey key) { regions_.erase(value_of(key)); }

  /// The byte that [address, address + length) starts at, or nullptr: unknown key or out of range. A zero
  /// length resolves for any address in the region or one past its end; a WRITE of no bytes is not resolved
  /// at all (IBTA C9-88).
  std::byte* resolve(RemoteKey key, std::uint64_t address, std::uint64_t length) const {
    const auto found = regions_.find(value_of(key));
    if (found == regions_.end()) return nullptr;
    const Region& region = found->second;
    if (address < region.remote_address) return nullptr;
    const std::uint64_t offset = address - region.remote_address;
    if (offset > region.memory.size() || length > region.memory.size() - offset) return nullptr;
    return region.memory.data() + offset;
  }

  struct Place {
    RemoteKey key{};
    std::uint64_t address = 0;
  };
  /// A region that holds all of `memory`, and the remote address of its first byte there. Looks at every
  /// region.
  std::optional<Place> locate(std::span<const std::byte> memory) const {
    for (const auto& [key, region] : regions_) {
      const std::byte* const begin = region.memory.data();
      if (memory.data() >= begin && memory.data() + memory.size() <= begin + region.memory.size())
        return Place{RemoteKey{key},
                     region.remote_address + static_cast<std::uint64_t>(memory.data() - begin)};
    }
    return std::nullopt;
  }

 private:
  struct Region {
    std::uint64_t remote_address;
    std::span<std::byte> memory;
  };
  std::unordered_map<std::uint32_t, Region> regions_;
};

}  // namespace rdmc::roce
