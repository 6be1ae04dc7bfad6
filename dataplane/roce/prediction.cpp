#include "dataplane/roce/prediction.hpp"

#include <algorithm>

namespace rdmc::roce {

Prediction::Prediction(RegionTable& regions, std::uint32_t path_mtu, KeyHolder holder)
    : regions_(regions),
      claims_(regions.claims()),
      path_mtu_(path_mtu),
      holder_(holder),
      expected_(kExpectedWrites) {}

void Prediction::expect(std::span<std::byte> where) {
  // Drops the hints at the front whose claims have ended. If such a hint comes after a hint whose claim has
  // not ended, it stays until the earlier hint is removed.
  while (!expected_.empty() && !holds(expected_.front())) expected_.pop();
  if (expected_.size() == kExpectedWrites) return;
  const bool apart = where.data() + where.size() <= message_.memory.data() ||
                     where.data() >= message_.memory.data() + message_.memory.size();
  if (!apart && holds(message_)) return;
  expected_.push({.memory = where, .claim = claims_.claim(where)});
}

void Prediction::forget() {
  for (; !expected_.empty(); expected_.pop()) withdraw(expected_.front());
  end_message();
}

void Prediction::on_arrival(const XWrite& header, std::uint32_t bytes, std::byte* destination, bool highest) {
  const bool continues =
      rest_ > 0 && header.address == next_address_ && header.key == key_ && header.remaining == rest_;
  // A WRITE of no bytes has no destination, but it may have a hint like any other WRITE.
  const auto address_of = [&](std::uint64_t length) {
    return regions_.resolve(header.key, header.address, length, RemoteAccess::write, holder_);
  };
  if (!continues) use_up_hints(bytes > 0 ? destination : address_of(0));
  // The memory for the rest of the message from this packet on, or for this packet only if the rest exceeds
  // the region.
  std::span<std::byte> message;
  if (destination != nullptr && (!continues || !holds(message_))) {
    const bool fits = address_of(header.remaining) == destination;
    message = {destination, fits ? header.remaining : bytes};
    // From now on valid bytes are in this memory, so all other claims on it end.
    claims_.end_within(message, message_.claim);
  }
  if (!highest) return;
  if (!continues) begin_message(message.size() == header.remaining ? message : std::span<std::byte>());
  key_ = header.key;
  next_address_ = header.address + bytes;
  rest_ = header.remaining - bytes;
  if (rest_ == 0) end_message();
}

/// Removes the hint that contains `address`, and all hints before it. Hints are in the order in which the
/// messages should arrive. If a later message arrives first, the hints before its own hint are removed,
/// because they would block the later hints. Their messages are copied when they arrive. If several hints
/// contain `address`, the newest one is that of this message. The older hints are left from grants that were
/// not used.
void Prediction::use_up_hints(const std::byte* address) {
  if (address == nullptr) return;
  std::uint64_t used = expected_.head();
  for (std::uint64_t i = expected_.head(); i != expected_.tail(); ++i) {
    const std::span<std::byte> memory = expected_[i].memory;
    if (address >= memory.data() && address < memory.data() + memory.size()) used = i + 1;
  }
  for (; expected_.head() != used; expected_.pop()) withdraw(expected_.front());
}

void Prediction::begin_message(std::span<std::byte> memory) {
  end_message();
  if (!memory.empty()) message_ = {.memory = memory, .claim = claims_.claim(memory)};
}

void Prediction::end_message() {
  withdraw(message_);
  message_ = {};
  rest_ = 0;
}

std::size_t Prediction::predict(std::span<std::span<std::byte>> out, std::size_t skip, bool for_others) {
  std::size_t count = 0;
  const auto may_use = [&](Claimed& one) { return !for_others || !is_readable(one); };
  if (rest_ > 0 &&
      (!holds(message_) || !may_use(message_) || !append(message_.memory.last(rest_), out, count, skip)))
    return count;
  for (std::uint64_t i = expected_.head(); i != expected_.tail(); ++i) {
    Claimed& one = expected_[i];
    if (holds(one) && (!may_use(one) || !append(one.memory, out, count, skip))) return count;
  }
  return count;
}

bool Prediction::is_readable(Claimed& one) {
  if (!one.is_readable) one.is_readable = regions_.is_readable(one.memory);
  return *one.is_readable;
}

bool Prediction::append(std::span<std::byte> memory, std::span<std::span<std::byte>> out, std::size_t& count,
                        std::size_t& skip) const {
  const std::size_t packets = (memory.size() - 1) / path_mtu_ + 1;
  if (skip >= packets) {
    skip -= packets;
    return true;
  }
  memory = memory.subspan(skip * path_mtu_);
  skip = 0;
  while (!memory.empty()) {
    if (count == out.size()) return false;
    const auto packet = memory.first(std::min<std::size_t>(memory.size(), path_mtu_));
    out[count++] = packet;
    memory = memory.subspan(packet.size());
    if (packet.size() < path_mtu_) return false;
  }
  return true;
}

}  // namespace rdmc::roce
