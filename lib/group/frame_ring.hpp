// The books of a ring of frames between two peers: one side writes frames into the other's memory one behind
// the other, the other reads them in the same order and says how far it has come. A frame never wraps around;
// what is left at the ring's end is skipped when a frame does not fit. Positions count bytes since the
// beginning and never wrap. Pure; one thread each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "dataplane/base/error.hpp"
#include "dataplane/roce/fixed_ring.hpp"

namespace rdmc::group {

/// Frames begin at multiples of it.
inline constexpr std::uint32_t kFrameAlign = 8;
/// A ring's size is a multiple of kFrameAlign; an immediate carries an offset in kFrameAligns by 16 bits.
inline constexpr std::uint32_t kLeastRingBytes = 4096, kMostRingBytes = 1 << 19;

constexpr std::uint32_t frame_stride(std::uint32_t bytes) {
  return (bytes + kFrameAlign - 1) / kFrameAlign * kFrameAlign;
}

/// The writer's books.
class FrameWriter {
 public:
  /// Kept back for frames that carry nothing but credit: with both rings full somebody must be able to say
  /// that it has read. A peer's credit is told after a quarter of a ring at the latest, 8 bytes each time.
  static constexpr std::uint32_t kReserveBytes = 256;

  /// At most `most_frames` under way.
  FrameWriter(std::uint32_t ring_bytes, std::uint32_t most_frames)
      : ring_(ring_bytes), most_frames_(most_frames), under_way_(most_frames) {}

  struct Room {
    std::uint32_t offset = 0;
    std::uint32_t bytes = 0;
  };
  /// Room for a frame of at least `least` bytes, as much as there is in one piece and at most `most`; nothing
  /// if there is none now. `urgent`: may use the reserve.
  std::optional<Room> room(std::uint32_t least, std::uint32_t most, bool urgent = false) const;
  /// A frame of `bytes` bytes, no more than there was room, is being written at that room's offset.
  void wrote(const Room& room, std::uint32_t bytes);
  /// The oldest frame under way has been written.
  void on_written();
  /// The reader has read everything below `position`. Errors: protocol_error (going back, or beyond what was
  /// written).
  Result<void> on_consumed(std::uint64_t position);

  std::uint32_t frames_under_way() const { return static_cast<std::uint32_t>(under_way_.size()); }

 private:
  std::uint32_t ring_, most_frames_;
  std::uint64_t end_ = 0;       ///< where the next frame begins, unless it must skip
  std::uint64_t written_ = 0;   ///< frames below are in the peer's memory, ours may be overwritten
  std::uint64_t consumed_ = 0;  ///< frames below were read, the peer's memory may be overwritten
  roce::FixedRing<std::uint64_t> under_way_;  ///< the ends of frames being written
};

/// The reader's books.
class FrameReader {
 public:
  explicit FrameReader(std::uint32_t ring_bytes) : ring_(ring_bytes) {}

  /// A frame of `bytes` bytes has come to `offset`; it is read before the next call. Errors: protocol_error
  /// (not where the next frame belongs).
  Result<void> on_frame(std::uint32_t offset, std::uint32_t bytes);
  std::uint64_t consumed() const { return consumed_; }
  /// So much was read since the writer was last told that it should be told now.
  bool owes_credit() const { return consumed_ - told_ >= ring_ / 4; }
  void told() { told_ = consumed_; }

 private:
  std::uint32_t ring_;
  std::uint64_t consumed_ = 0, told_ = 0;
};

}  // namespace rdmc::group
