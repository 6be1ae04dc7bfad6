// Remembers the CRC of payload that arrived, so that a relay that sends the same bytes on need not read them
// again to seal them: the CRC of a packet is then combined from that of its new header and the remembered
// one. It also guards the bytes while they wait: if memory went bad in between, the next receiver notices.
// Owned by the software fabric; knows only regions registered as MemoryUse::relayed, where nobody but peers
// writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace rdmc::fabric {

class ArrivedChecksums {
 public:
  void add_region(std::span<std::byte> memory);
  void remove_region(std::span<std::byte> memory) { regions_.erase(memory.data()); }
  bool empty() const { return regions_.empty(); }

  /// `payload` has arrived in its place with this payload_crc. Kept if it begins at a multiple of kGranule in
  /// a region. What was known of the bytes before is forgotten: other sources cut a block into other packets.
  void record(std::span<const std::byte> payload, std::uint32_t crc);
  /// These bytes have changed. Packets that began before them are still known: a block is written whole, and
  /// so are their first bytes.
  void forget(std::span<const std::byte> bytes);
  /// The CRC of exactly these bytes, if they arrived as one packet.
  std::optional<std::uint32_t> find(std::span<const std::byte> payload) const;

 private:
  /// One entry for each: packets of a path MTU of whole pages begin there, and 8 bytes in 4096 are cheap.
  static constexpr std::size_t kGranule = 4096;

  struct Entry {
    std::uint32_t bytes = 0;  ///< 0: nothing arrived here
    std::uint32_t crc = 0;
  };
  struct Region {
    std::span<std::byte> memory;
    std::vector<Entry> entries;
  };

  const Entry* entry_of(std::span<const std::byte> payload) const;

  std::map<const std::byte*, Region> regions_;
};

}  // namespace rdmc::fabric
