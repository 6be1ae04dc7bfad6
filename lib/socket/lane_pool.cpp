#include "lib/socket/lane_pool.hpp"

#include <cassert>
#include <new>
#include <utility>

namespace rdmc::sockets {

static_assert(sizeof(LaneHead) <= LanePool::kHeadBytes);

LanePool::LanePool(std::shared_ptr<const void> owner, std::span<std::byte> memory, bool first,
                   std::shared_ptr<const fabric::PeerMemory> peer)
    : owner_(std::move(owner)), memory_(memory), peer_(std::move(peer)), first_(first ? 0 : kLanesPerSide) {
  assert(memory_.size() >= kBytes);
  if (!first) return;
  for (unsigned lane = 0; lane < 2 * kLanesPerSide; ++lane) new (&head(lane)) LaneHead;
}

LaneHead& LanePool::head(unsigned lane) const {
  return *std::launder(reinterpret_cast<LaneHead*>(memory_.data() + lane * (kHeadBytes + kRingBytes)));
}

std::optional<unsigned> LanePool::claim() {
  for (unsigned lane = first_; lane < first_ + kLanesPerSide; ++lane) {
    LaneHead& its = head(lane);
    if (is_written_[lane].load() || its.left.load() == 0) continue;
    is_written_[lane] = true;
    its.written = its.read = its.advert.terms = 0;
    its.advert.is_wanted = 0;
    for (LaneBell* const bell : {&its.reader, &its.writer}) bell->asleep = bell->by_record = 0;
    its.left = 0;
    return lane;
  }
  return std::nullopt;
}

void LanePool::release(unsigned lane, bool was_told) {
  if (!was_told) head(lane).left = 1;
  is_written_[lane] = false;
}

bool LanePool::is_peers(std::uint64_t lane) const {
  return lane < 2 * kLanesPerSide && (lane < first_ || lane >= first_ + kLanesPerSide);
}

void LanePool::leave(unsigned lane) {
  head(lane).left = 1;
}

LaneMemory LanePool::memory(unsigned lane) const {
  const auto bytes = memory_.subspan(lane * (kHeadBytes + kRingBytes), kHeadBytes + kRingBytes);
  return {owner_, &head(lane), bytes.subspan(kHeadBytes), peer_};
}

}  // namespace rdmc::sockets
