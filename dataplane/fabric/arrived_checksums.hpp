// Remembers the CRC of received payload. A relay that sends the same bytes on then need not read them again
// to compute the ICRC: it combines the CRC of the packet's new header with the remembered CRC. This also
// protects the bytes while they wait: if they change in memory in between, the next receiver detects it.
// Owned by the software fabric. Covers only regions that were registered as MemoryUse::relayed, which only
// peers write.
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

  /// Remembers the payload_crc of `payload`, which has been placed in a region. Payload of more than
  /// kMostBytes is not remembered. If several packets begin in one granule, the last one is remembered. Older
  /// entries that overlap these bytes are forgotten, because other sources may cut a block into other
  /// packets.
  void record(std::span<const std::byte> payload, std::uint32_t crc);
  /// These bytes have changed. Forgets every entry that contains one of them.
  void forget(std::span<const std::byte> bytes);
  /// Returns the CRC of exactly these bytes, if they arrived as one packet.
  std::optional<std::uint32_t> find(std::span<const std::byte> payload) const;

 private:
  /// There is one entry for each granule. Packets of at least this size never share an entry. An entry has 8
  /// bytes.
  static constexpr std::size_t kGranule = 4096;
  static constexpr std::size_t kMostBytes = 0xFFFF;

  struct Entry {
    std::uint16_t offset = 0;  ///< Offset of the packet's first byte in the granule.
    std::uint16_t bytes = 0;   ///< 0 if no remembered packet begins in this granule.
    std::uint32_t crc = 0;
  };
  struct Region {
    std::span<std::byte> memory;
    std::unique_ptr<Entry[]> entries;
  };
  struct Position {
    /// The entries of the region that holds the bytes; null if no region holds them.
    Entry* entries = nullptr;
    std::size_t begin = 0;  ///< The offset of the first byte in that region.
  };
  Position locate(std::span<const std::byte> bytes) const;

  std::map<const std::byte*, Region> regions_;
};

}  // namespace rdmc::fabric
