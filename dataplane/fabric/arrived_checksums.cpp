#include "dataplane/fabric/arrived_checksums.hpp"

#include <algorithm>
#include <iterator>

namespace rdmc::fabric {

void ArrivedChecksums::add_region(std::span<std::byte> memory) {
  regions_.insert_or_assign(memory.data(),
                            Region{memory, std::vector<Entry>((memory.size() + kGranule - 1) / kGranule)});
}

const ArrivedChecksums::Entry* ArrivedChecksums::entry_of(std::span<const std::byte> payload) const {
  auto after = regions_.upper_bound(payload.data());
  if (after == regions_.begin()) return nullptr;
  const Region& region = (--after)->second;
  const auto offset = static_cast<std::size_t>(payload.data() - region.memory.data());
  if (offset % kGranule != 0 || offset + payload.size() > region.memory.size()) return nullptr;
  return &region.entries[offset / kGranule];
}

void ArrivedChecksums::forget(std::span<const std::byte> bytes) {
  const auto after = regions_.upper_bound(bytes.data());
  if (bytes.empty() || after == regions_.begin()) return;
  Region& region = std::prev(after)->second;
  const auto begin = static_cast<std::size_t>(bytes.data() - region.memory.data());
  const std::size_t end = std::min(begin + bytes.size(), region.memory.size());
  for (std::size_t at = (begin + kGranule - 1) / kGranule; at * kGranule < end; ++at) region.entries[at] = {};
}

void ArrivedChecksums::record(std::span<const std::byte> payload, std::uint32_t crc) {
  forget(payload);
  if (const Entry* const entry = payload.empty() ? nullptr : entry_of(payload)) {
    *const_cast<Entry*>(entry) = {static_cast<std::uint32_t>(payload.size()), crc};
  }
}

std::optional<std::uint32_t> ArrivedChecksums::find(std::span<const std::byte> payload) const {
  const Entry* const entry = payload.empty() ? nullptr : entry_of(payload);
  if (entry == nullptr || entry->bytes != payload.size()) return std::nullopt;
  return entry->crc;
}

}  // namespace rdmc::fabric
