#include "dataplane/fabric/frame_ring.hpp"

#include <algorithm>
#include <cassert>

namespace rdmc::fabric {

std::optional<FrameWriter::Room> FrameWriter::room(std::uint32_t least, std::uint32_t most,
                                                   bool urgent) const {
  if (under_way_.size() == most_frames_) return std::nullopt;
  const std::uint64_t used = end_ - std::min(written_, consumed_);
  const std::uint64_t kept = used + (urgent ? 0 : kReserveBytes);
  if (kept >= ring_) return std::nullopt;
  const std::uint64_t free = ring_ - kept;
  const auto offset = static_cast<std::uint32_t>(end_ % ring_);
  const auto to_end = ring_ - offset;
  const auto here = static_cast<std::uint32_t>(std::min<std::uint64_t>(free, to_end));
  if (here >= least) return Room{offset, std::min(here, most)};
  if (free < to_end || free - to_end < least) return std::nullopt;
  return Room{0, std::min(static_cast<std::uint32_t>(free - to_end), most)};
}

void FrameWriter::wrote(const Room& room, std::uint32_t bytes) {
  assert(bytes != 0 && bytes <= room.bytes);
  const auto offset = static_cast<std::uint32_t>(end_ % ring_);
  if (room.offset != offset) end_ += ring_ - offset;
  end_ += frame_stride(bytes);
  under_way_.push(end_);
}

void FrameWriter::on_written() {
  written_ = under_way_.front();
  under_way_.pop();
}

Result<void> FrameWriter::on_consumed(std::uint64_t position) {
  if (position < consumed_ || position > end_)
    return fail(Errc::protocol_error, "a peer has read what was never written");
  consumed_ = position;
  return {};
}

Result<void> FrameReader::on_frame(std::uint32_t offset, std::uint32_t bytes) {
  const auto next = static_cast<std::uint32_t>(consumed_ % ring_);
  if (offset != next && offset != 0) return fail(Errc::protocol_error, "a frame in a wrong place");
  if (bytes == 0 || bytes > ring_ - offset) return fail(Errc::protocol_error, "a frame of a wrong length");
  if (offset != next) consumed_ += ring_ - next;
  consumed_ += frame_stride(bytes);
  return {};
}

}  // namespace rdmc::fabric
