// The memory that peers may reach, by remote key, and what they may do there: what a NIC keeps in its
// translation table. Pure. The owner adds and revokes; the responder resolves each packet's target. Addresses
// on the wire are offsets chosen by the owner (`remote_address`), so that nothing of this process's layout is
// told to anybody. It also keeps what connections claim for packets that they expect, since such claims end
// when a region of that memory comes or goes.
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
  /// False if the key is taken. With a `holder`, only that connection may use the key.
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
  /// By a peer's SEND with invalidate. The key stays taken until its owner revokes it, but permits nothing
  /// any more. False: unknown, invalidated before, or not permitted to the connection that asks.
  bool invalidate(RemoteKey key, KeyHolder asks = KeyHolder::anyone) {
    const auto found = regions_.find(value_of(key));
    if (found == regions_.end() || !is_permitted(found->second, RemoteAccess::invalidate, asks)) return false;
    found->second.access = RemoteAccess::none;
    claims_.end_within(found->second.memory);
    return true;
  }

  /// The byte that [address, address + length) starts at, or nullptr: unknown key, out of range or not
  /// permitted. A zero length resolves for any address in the region or one past its end; a WRITE or READ of
  /// no bytes is not resolved at all (IBTA C9-88). `asks`: the connection whose packet it is. A key that has
  /// a holder resolves for nobody else.
  std::byte* resolve(RemoteKey key, std::uint64_t address, std::uint64_t length,
                     RemoteAccess needed = RemoteAccess::write, KeyHolder asks = KeyHolder::anyone) const {
    const auto found = regions_.find(value_of(key));
    if (found == regions_.end() || !is_permitted(found->second, needed, asks)) return nullptr;
    return place_in(found->second, address, length);
  }

  /// Where a WRITE to that address would lie, whoever sends it. It permits nothing.
  const std::byte* locate(RemoteKey key, std::uint64_t address, std::uint64_t length) const {
    const auto found = regions_.find(value_of(key));
    return found == regions_.end() ? nullptr : place_in(found->second, address, length);
  }

  /// Of the region, in bytes; 0: there is none of that key.
  std::size_t extent(RemoteKey key) const {
    const auto found = regions_.find(value_of(key));
    return found == regions_.end() ? 0 : found->second.memory.size();
  }

  /// Whether the peer of the connection `asks` may write all of `memory` by one key. Looks at every region.
  bool is_writable(std::span<const std::byte> memory, KeyHolder asks = KeyHolder::anyone) const {
    return std::ranges::any_of(regions_, [&](const auto& entry) {
      const Region& region = entry.second;
      const std::byte* const begin = region.memory.data();
      return is_permitted(region, RemoteAccess::write, asks) && memory.data() >= begin &&
             memory.data() + memory.size() <= begin + region.memory.size();
    });
  }

  /// Whether any peer may read a byte of `memory`, by a READ or an atomic operation. Looks at every region.
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
