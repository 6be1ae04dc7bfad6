#include "dataplane/fabric/arrived_checksums.hpp"

#include <algorithm>
#include <iterator>

namespace rdmc::fabric {

void ArrivedChecksums::add_region(std::span<std::byte> memory) {
  const std::size_t granules = (memory.size() + kGranule - 1) / kGranule;
  regions_.insert_or_assign(memory.data(), Region{memory, std::make_unique<Entry[]>(granules)});
}

ArrivedChecksums::Position ArrivedChecksums::locate(std::span<const std::byte> bytes) const {
  const auto after = regions_.upper_bound(bytes.data());
  if (bytes.empty() || after == regions_.begin()) return {};
  const Region& region = std::prev(after)->second;
  const auto begin = static_cast<std::size_t>(bytes.data() - region.memory.data());
  if (begin + bytes.size() > region.memory.size()) return {};
  return {region.entries.get(), begin};
}

void ArrivedChecksums::forget(std::span<const std::byte> bytes) {
  if (!has_recorded_) return;
  const auto [entries, begin] = locate(bytes);
  if (entries == nullptr) return;
  const std::size_t end = begin + bytes.size(), first = begin / kGranule;
  const auto drop_if_touched = [&, entries = entries, begin = begin](std::size_t at) {
    const std::size_t from = at * kGranule + entries[at].offset;
    if (from < end && begin < from + entries[at].bytes) entries[at] = {};
  };
  for (std::size_t at = first; at * kGranule < end; ++at) drop_if_touched(at);
  // No two entries share a byte. So among the entries that begin before `bytes`, only the last one can
  // overlap `bytes`.
  const std::size_t least = first - std::min(first, kMostBytes / kGranule + 1);
  for (std::size_t at = first; at-- > least;) {
    if (entries[at].bytes == 0) continue;
    drop_if_touched(at);
    break;
  }
}

void ArrivedChecksums::record(std::span<const std::byte> payload, std::uint32_t crc) {
  forget(payload);
  const auto [entries, begin] = locate(payload);
  if (entries == nullptr || !remembers(payload.size())) return;
  has_recorded_ = true;
  entries[begin / kGranule] = {static_cast<std::uint16_t>(begin % kGranule),
                               static_cast<std::uint16_t>(payload.size()), crc};
}

std::optional<std::uint32_t> ArrivedChecksums::find(std::span<const std::byte> payload) const {
  if (!remembers(payload.size())) return std::nullopt;
  const auto [entries, begin] = locate(payload);
  if (entries == nullptr) return std::nullopt;
  const Entry& entry = entries[begin / kGranule];
  if (entry.offset != begin % kGranule || entry.bytes != payload.size()) return std::nullopt;
  return entry.crc;
}

}  // namespace rdmc::fabric
