// Remembers the CRC of received payload, for relays that send the same bytes on. To compute the ICRC of such
// a packet, a relay combines the CRC of the new header with the remembered CRC. It does not read the payload
// again. This also protects the payload while it waits in memory: if the payload changes there, the next
// receiver detects the change. Owned by the software fabric. Covers only regions that were registered as
// MemoryUse::relayed. Only peers write such regions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

namespace rdmc::fabric {

class ArrivedChecksums {
 public:
  void add_region(std::span<std::byte> memory);
  void remove_region(std::span<std::byte> memory) { regions_.erase(memory.data()); }
  bool empty() const { return regions_.empty(); }

  /// Returns true if the CRC of a payload of this length is remembered. For a shorter payload, computing the
  /// CRC again takes less time than find().
  static constexpr bool remembers(std::size_t bytes) { return bytes >= kGranule && bytes <= kMostBytes; }
  /// Remembers `crc`, which is the payload_crc of `payload`, if remembers(payload.size()). `payload` has been
  /// placed in a region. Older entries that overlap these bytes are forgotten. Such entries exist because
  /// another source may cut the same block into other packets.
  void record(std::span<const std::byte> payload, std::uint32_t crc);
  /// Must be called when these bytes have changed. Forgets every entry that contains one of them.
  void forget(std::span<const std::byte> bytes);
  /// Returns the CRC of these bytes if exactly these bytes were received in one packet. Otherwise returns
  /// nullopt.
  std::optional<std::uint32_t> find(std::span<const std::byte> payload) const;

 private:
  /// The size of a granule. There is one entry for each granule, and an entry has 8 bytes. Two packets that
  /// begin in one granule overlap, because no remembered packet is shorter.
  static constexpr std::size_t kGranule = 4096;
  static constexpr std::size_t kMostBytes = 0xFFFF;

  struct Entry {
    std::uint16_t offset = 0;  ///< The offset of the packet's first byte in the granule.
    std::uint16_t bytes =
        0;  ///< The length of the packet's payload. 0 if no remembered packet begins in this granule.
    std::uint32_t crc = 0;
  };
  struct Region {
    std::span<std::byte> memory;
    std::unique_ptr<Entry[]> entries;
  };
  struct Position {
    /// The entries of the region that contains the bytes; null if no region contains them.
    Entry* entries = nullptr;
    std::size_t begin = 0;  ///< The offset of the first of these bytes in the region.
  };
  Position locate(std::span<const std::byte> bytes) const;

  std::map<const std::byte*, Region> regions_;
  // False as long as all packets were too short to be remembered. Then there is nothing to forget.
  bool has_recorded_ = false;
};

}  // namespace rdmc::fabric
