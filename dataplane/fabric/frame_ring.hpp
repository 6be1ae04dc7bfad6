// The bookkeeping of a ring buffer of frames between two peers. One side writes frames one after another into
// the other side's memory. The other side reads them in the same order and reports how far it has read. A
// frame never wraps around: if it does not fit before the ring's end, the rest of the ring is skipped.
// Positions count bytes since the beginning and never wrap. A core without I/O; one thread uses each object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "dataplane/base/error.hpp"
#include "dataplane/roce/fixed_ring.hpp"

namespace rdmc::fabric {

/// Frames begin at multiples of this number of bytes.
inline constexpr std::uint32_t kFrameAlign = 8;
/// The limits of a ring's size in bytes. The size must be a multiple of kFrameAlign. An immediate carries a
/// frame's offset in 16 bits, in units of kFrameAlign.
inline constexpr std::uint32_t kLeastRingBytes = 4096, kMostRingBytes = 1 << 19;

constexpr std::uint32_t frame_stride(std::uint32_t bytes) {
  return (bytes + kFrameAlign - 1) / kFrameAlign * kFrameAlign;
}

/// The bookkeeping of the writer.
class FrameWriter {
 public:
  /// Space that only frames without records may use. When both rings are full, each side must still be able
  /// to report what it has read. A reader reports at least once for each quarter of a ring that it has read;
  /// the report takes 8 bytes.
  static constexpr std::uint32_t kReserveBytes = 256;

  /// At most `most_frames` frames are in flight.
  FrameWriter(std::uint32_t ring_bytes, std::uint32_t most_frames)
      : ring_(ring_bytes), most_frames_(most_frames), under_way_(most_frames) {}

  struct Room {
    std::uint32_t offset = 0;
    std::uint32_t bytes = 0;
  };
  /// Returns a contiguous space for a frame of at least `least` bytes. The space is as large as possible, but
  /// not larger than `most` bytes. Returns nullopt if there is no such space now. If `urgent` is set, the
  /// reserve may be used.
  std::optional<Room> room(std::uint32_t least, std::uint32_t most, bool urgent = false) const;
  /// Called when a frame of `bytes` bytes is being written at room.offset. `bytes` must be at least 1 and at
  /// most room.bytes.
  void wrote(const Room& room, std::uint32_t bytes);
  /// Called when the oldest frame in flight has been written.
  void on_written();
  /// Called when the reader reports that it has read everything below `position`. Errors: protocol_error if
  /// the position goes back, or is greater than what was written.
  Result<void> on_consumed(std::uint64_t position);

  std::uint32_t frames_in_flight() const { return static_cast<std::uint32_t>(under_way_.size()); }

 private:
  std::uint32_t ring_, most_frames_;
  /// The position of the next frame, unless that frame must skip the rest of the ring.
  std::uint64_t end_ = 0;
  /// Frames below this position are in the peer's memory, so their local copies may be overwritten.
  std::uint64_t written_ = 0;
  /// Frames below this position were read, so they may be overwritten in the peer's memory.
  std::uint64_t consumed_ = 0;
  roce::FixedRing<std::uint64_t> under_way_;  ///< The end positions of the frames in flight.
};

/// The bookkeeping of the reader.
class FrameReader {
 public:
  explicit FrameReader(std::uint32_t ring_bytes) : ring_(ring_bytes) {}

  /// Called when a frame of `bytes` bytes has arrived at `offset`. The caller must read the frame before the
  /// next call. Errors: protocol_error if the offset is not where the next frame belongs, or if the length is
  /// impossible.
  Result<void> on_frame(std::uint32_t offset, std::uint32_t bytes);
  std::uint64_t consumed() const { return consumed_; }
  /// True if a quarter of the ring was read since the last report to the writer, so that a new report is due.
  bool owes_credit() const { return consumed_ - told_ >= ring_ / 4; }
  void told() { told_ = consumed_; }

 private:
  std::uint32_t ring_;
  std::uint64_t consumed_ = 0, told_ = 0;
};

}  // namespace rdmc::fabric
