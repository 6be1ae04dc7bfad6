#include "dataplane/roce/prediction.hpp"

#include <algorithm>

namespace rdmc::roce {

Prediction::Prediction(const RegionTable& regions, std::uint32_t path_mtu)
    : regions_(regions), path_mtu_(path_mtu), expected_(kExpectedWrites) {}

void Prediction::expect(std::span<std::byte> where) {
  if (where.empty()) return;
  if (expected_.size() == kExpectedWrites) drop_revoked();
  if (expected_.size() == kExpectedWrites) return;
  const auto place = regions_.locate(where);
  if (!place) return;
  if (rest_ > 0) {
    const std::byte* const next = regions_.resolve(key_, next_address_, rest_);
    if (next > where.data() && next < where.data() + where.size()) return;
  }
  expected_.push({.key = place->key, .address = place->address, .memory = where});
}

bool Prediction::is_registered(const Expected& hint) const {
  return regions_.resolve(hint.key, hint.address, hint.memory.size()) == hint.memory.data();
}

// Nothing will ever arrive for these and use them up. Those behind one that may still be used wait for it.
void Prediction::drop_revoked() {
  while (!expected_.empty() && !is_registered(expected_.front())) expected_.pop();
}

void Prediction::on_arrival(const XWrite& header, std::uint32_t bytes, const std::byte* destination,
                            bool highest) {
  const bool continues = rest_ > 0 && header.address == next_address_ && header.key == key_;
  // A WRITE of no bytes has no destination, but was foretold like any other.
  if (!continues && (destination != nullptr || bytes == 0)) {
    // Hints are in the order of the messages: those before this one have all their packets behind the highest
    // PSN. The newest of this memory is this message's: others are left from grants that nobody has used, and
    // from now on valid bytes lie there.
    std::uint64_t used = expected_.head();
    for (std::uint64_t i = expected_.head(); i != expected_.tail(); ++i) {
      const Expected& hint = expected_[i];
      const bool within = hint.key == header.key && header.address >= hint.address &&
                          header.address - hint.address < hint.memory.size();
      if (within) used = i + 1;
    }
    while (expected_.head() != used) expected_.pop();
  }
  if (!highest) return;
  key_ = header.key;
  next_address_ = header.address + bytes;
  rest_ = header.remaining - bytes;
}

std::size_t Prediction::predict(std::span<std::span<std::byte>> out, std::size_t skip) const {
  std::size_t count = 0;
  if (rest_ > 0) {
    std::byte* const memory = regions_.resolve(key_, next_address_, rest_);
    if (memory == nullptr || !append(memory, rest_, out, count, skip)) return count;
  }
  for (std::uint64_t i = expected_.head(); i != expected_.tail(); ++i) {
    const Expected& next = expected_[i];
    if (!is_registered(next)) continue;
    if (!append(next.memory.data(), next.memory.size(), out, count, skip)) return count;
  }
  return count;
}

bool Prediction::append(std::byte* memory, std::size_t bytes, std::span<std::span<std::byte>> out,
                        std::size_t& count, std::size_t& skip) const {
  const std::size_t packets = (bytes - 1) / path_mtu_ + 1;
  if (skip >= packets) {
    skip -= packets;
    return true;
  }
  memory += skip * path_mtu_;
  bytes -= skip * path_mtu_;
  skip = 0;
  while (bytes > 0) {
    if (count == out.size()) return false;
    const std::size_t part = std::min<std::size_t>(bytes, path_mtu_);
    out[count++] = {memory, part};
    memory += part;
    bytes -= part;
    if (part < path_mtu_) return false;
  }
  return true;
}

}  // namespace rdmc::roce
