// The lanes of two processes of one host: one piece of memory that both have mapped, cut into lanes of which
// each side writes its half. A connection has one for each direction once it has shown that it is worth it;
// there are few, and who gets none goes on in frames. The books are each side's own; what is shared is only
// whether a lane has a reader.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>

#include "lib/socket/lane.hpp"

namespace rdmc::sockets {

class LanePool {
 public:
  static constexpr unsigned kLanesPerSide = 32;
  /// Two cores share it through their caches.
  static constexpr std::size_t kRingBytes = 256 * 1024;
  static constexpr std::size_t kHeadBytes = 4096;
  static constexpr std::size_t kBytes = 2 * kLanesPerSide * (kHeadBytes + kRingBytes);

  /// `memory`: kBytes, which `owner` keeps; `first`: whether we made it, so that nobody has seen it yet, and
  /// write the lower half of the lanes. `peer`: the memory of the process at the other end; null: none.
  LanePool(std::shared_ptr<const void> owner, std::span<std::byte> memory, bool first,
           std::shared_ptr<const fabric::PeerMemory> peer = nullptr);

  /// A lane of ours that nobody uses, for a writer; nothing: all are in use.
  std::optional<unsigned> claim();
  /// Who has claimed it writes no more; `was_told`: and the peer has heard of it, so it says when it is done.
  void release(unsigned lane, bool was_told);
  /// Whether the peer may name it to us.
  bool is_peers(std::uint64_t lane) const;
  /// A lane that the peer has named, and whose connection is no more.
  void leave(unsigned lane);
  LaneMemory memory(unsigned lane) const;

 private:
  LaneHead& head(unsigned lane) const;

  std::shared_ptr<const void> owner_;
  std::span<std::byte> memory_;
  std::shared_ptr<const fabric::PeerMemory> peer_;
  unsigned first_;  // of ours
  std::array<std::atomic<bool>, 2 * kLanesPerSide> is_written_{};
};

/// A lane while we write it.
class ClaimedLane {
 public:
  ClaimedLane(std::shared_ptr<LanePool> pool, unsigned lane, Wake wake = wake_sleepers)
      : writer(pool->memory(lane), wake), pool_(std::move(pool)), lane_(lane) {}
  ~ClaimedLane() { pool_->release(lane_, was_told_); }
  ClaimedLane(const ClaimedLane&) = delete;
  ClaimedLane& operator=(const ClaimedLane&) = delete;

  unsigned number() const { return lane_; }
  bool was_told() const { return was_told_; }
  void told() { was_told_ = true; }

  LaneWriter writer;

 private:
  std::shared_ptr<LanePool> pool_;
  unsigned lane_;
  bool was_told_ = false;
};

}  // namespace rdmc::sockets
