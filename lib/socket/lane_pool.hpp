// The lanes between two processes of one host, in memory that both processes have mapped. Each process writes
// to one half of the lanes and reads from the other half. A connection gets a lane for a direction when it
// has sent enough bytes to be worth a lane. There are few lanes, so a connection that gets none continues to
// send in frames. Each process keeps its own records of the lanes. The pool shares only one kind of state:
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
  /// Two processor cores can share a ring buffer of this size through their caches.
  static constexpr std::size_t kRingBytes = 256 * 1024;
  static constexpr std::size_t kHeadBytes = 4096;
  static constexpr std::size_t kBytes = 2 * kLanesPerSide * (kHeadBytes + kRingBytes);

  /// `memory` must have kBytes, and `owner` keeps it mapped. `first` is true if this process made the memory
  /// and no other process has seen it yet. The process that made the memory writes to the lower half of the
  /// lanes. `peer` is the memory of the process at the other end, or null if it cannot be read.
  LanePool(std::shared_ptr<const void> owner, std::span<std::byte> memory, bool first,
           std::shared_ptr<const fabric::PeerMemory> peer = nullptr);

  /// Returns a free lane of this side for a writer, or nullopt if all are in use.
  std::optional<unsigned> claim();
  /// Must be called when the claimer of `lane` writes no more. If `was_told`, the peer knows of the lane and
  /// frees it when it has read everything. Otherwise the lane is free at once.
  void release(unsigned lane, bool was_told);
  /// True if `lane` is one of the peer's lanes.
  bool is_peers(std::uint64_t lane) const;
  /// Stops reading a lane that the peer has named. Must be called when the connection of this lane has ended.
  void leave(unsigned lane);
  LaneMemory memory(unsigned lane) const;

 private:
  LaneHead& head(unsigned lane) const;

  std::shared_ptr<const void> owner_;
  std::span<std::byte> memory_;
  std::shared_ptr<const fabric::PeerMemory> peer_;
  unsigned first_;  // the number of this side's first lane
  std::array<std::atomic<bool>, 2 * kLanesPerSide> is_written_{};
};

/// A lane that this side writes to.
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
