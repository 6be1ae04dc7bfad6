// Remembers the CRC of payload that arrived, so that a relay that sends the same bytes on need not read them
// again to seal them: the CRC of a packet is then combined from that of its new header and the remembered
// one. It also guards the bytes while they wait: if memory went bad in between, the next receiver notices.
// Owned by the software fabric; knows only regions registered as MemoryUse::relayed, where nobody but peers
// writes.
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

  /// `payload` has arrived in its place, in a region, with this payload_crc. Kept if it has at most
  /// kMostBytes; of packets that begin in the same granule the last one. What was known of the bytes before
  /// is forgotten: other sources cut a block into other packets.
  void record(std::span<const std::byte> payload, std::uint32_t crc);
  /// These bytes have changed: no packet that held one of them is known any more.
  void forget(std::span<const std::byte> bytes);
  /// The CRC of exactly these bytes, if they arrived as one packet.
  std::optional<std::uint32_t> find(std::span<const std::byte> payload) const;

 private:
  /// One entry for each: of packets as large as this none shares its entry, and 8 bytes in 4096 are cheap.
  static constexpr std::size_t kGranule = 4096;
  static constexpr std::size_t kMostBytes = 0xFFFF;

  struct Entry {
    std::uint16_t offset = 0;  ///< of its first byte in the granule
    std::uint16_t bytes = 0;   ///< 0: nothing that is known begins here
    std::uint32_t crc = 0;
  };
  struct Region {
    std::span<std::byte> memory;
    std::unique_ptr<Entry[]> entries;
  };
  struct Place {
    Entry* entries = nullptr;  ///< of the region; null: in none
    std::size_t begin = 0;     ///< the first byte's offset in it
  };
  Place locate(std::span<const std::byte> bytes) const;

  std::map<const std::byte*, Region> regions_;
};

}  // namespace rdmc::fabric
