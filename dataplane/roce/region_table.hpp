// The memory that peers may reach: each remote key with its region and its permissions. A NIC has the same
// data in its translation table. The table does no I/O. The owner adds and revokes regions, and the responder
// resolves the target of each packet. Addresses on the wire are chosen by the owner (`remote_address`), so no
// peer learns the memory layout of this process. The table also holds the connections' scatter claims,
// because a claim ends when a region of its memory is added or removed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>

#include "dataplane/base/types.hpp"
#include "dataplane/roce/scatter_claims.hpp"

namespace rdmc::roce {

class RegionTable {
 public:
  /// Adds a region. Returns false if the key is in use. If `holder` is not `anyone`, only the connection
  /// `holder` may use the key.
  bool add(RemoteKey key, std::uint64_t remote_address, std::span<std::byte> memory,
           RemoteAccess access = RemoteAccess::write, KeyHolder holder = KeyHolder::anyone) {
    if (!regions_.try_emplace(value_of(key), Region{remote_address, memory, access, holder}).second)
      return false;
    claims_.end_within(memory);
    return true;
  }
  void revoke(RemoteKey key) {
    const auto found = regions_.find(value_of(key));
    if (found == regions_.end()) return;
    claims_.end_within(found->second.memory);
    regions_.erase(found);
  }
  /// Executes a peer's SEND with invalidate. The key stays in use until its owner revokes it, but it permits
  /// nothing any more. Returns false if the key is unknown or was invalidated before, or if the connection
  /// `asks` is not permitted to invalidate it.
  bool invalidate(RemoteKey key, KeyHolder asks = KeyHolder::anyone) {
    const auto found = regions_.find(value_of(key));
    if (found == regions_.end() || !is_permitted(found->second, RemoteAccess::invalidate, asks)) return false;
    found->second.access = RemoteAccess::none;
    claims_.end_within(found->second.memory);
    return true;
  }

  /// Returns the memory of [address, address + length), or nullptr if the key is unknown, the range exceeds
  /// the region, or the access is not permitted. A length of zero is permitted for every address in the
  /// region and for the address after its end. The responder does not resolve a WRITE or READ of no bytes at
  /// all (IBTA C9-88). `asks` is the connection that received the packet. If the key has a holder, the result
  /// is nullptr for every other connection.
  std::byte* resolve(RemoteKey key, std::uint64_t address, std::uint64_t length,
                     RemoteAccess needed = RemoteAccess::write, KeyHolder asks = KeyHolder::anyone) const {
    const auto found = regions_.find(value_of(key));
    if (found == regions_.end() || !is_permitted(found->second, needed, asks)) return nullptr;
    return place_in(found->second, address, length);
  }

  /// Returns the memory that a WRITE to this address would go to, or nullptr if it is outside the key's
  /// region. No permission is checked.
  const std::byte* locate(RemoteKey key, std::uint64_t address, std::uint64_t length) const {
    const auto found = regions_.find(value_of(key));
    return found == regions_.end() ? nullptr : place_in(found->second, address, length);
  }

  /// Returns the size of the key's region in bytes, or 0 if there is no such key.
  std::size_t extent(RemoteKey key) const {
    const auto found = regions_.find(value_of(key));
    return found == regions_.end() ? 0 : found->second.memory.size();
  }

  /// True if any peer may read a byte of `memory`, by a READ or an atomic. The time grows with the number of
  /// regions.
  bool is_readable(std::span<const std::byte> memory) const {
    return std::ranges::any_of(regions_, [&](const auto& entry) {
      const Region& region = entry.second;
      const std::byte* const begin = region.memory.data();
      return (permits(region.access, RemoteAccess::read) || permits(region.access, RemoteAccess::atomic)) &&
             memory.data() < begin + region.memory.size() && begin < memory.data() + memory.size();
    });
  }

  ScatterClaims& claims() { return claims_; }

 private:
  struct Region {
    std::uint64_t remote_address;
    std::span<std::byte> memory;
    RemoteAccess access;
    KeyHolder holder;
  };
  static bool is_permitted(const Region& region, RemoteAccess needed, KeyHolder asks) {
    return permits(region.access, needed) && (region.holder == KeyHolder::anyone || region.holder == asks);
  }
  static std::byte* place_in(const Region& region, std::uint64_t address, std::uint64_t length) {
    if (address < region.remote_address) return nullptr;
    const std::uint64_t offset = address - region.remote_address;
    if (offset > region.memory.size() || length > region.memory.size() - offset) return nullptr;
    return region.memory.data() + offset;
  }
  std::unordered_map<std::uint32_t, Region> regions_;
  ScatterClaims claims_;
};

}  // namespace rdmc::roce
