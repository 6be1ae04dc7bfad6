// What a stream does with lanes: the bytes of its application pass it by, its state does not.
#include <cassert>
#include <cerrno>
#include <utility>

#include "lib/socket/stream.hpp"

namespace rdmc::sockets {

/// From now on, if all before has been told, so that the order stays.
bool Stream::takes_lane() {
  if (chunks_ && chunks_->has_asked) return false;  // records keep their order among chunks
  sends_ += sends_ < kSendsBeforeLane;
  if (!send_.empty() || (sent_ < kBytesBeforeLane && sends_ < kSendsBeforeLane)) return false;
  outgoing_ = outlet_->claim_lane();
  if (!outgoing_) return false;
  stir();  // to tell it
  return true;
}

Answer Stream::send_in_lane(std::span<const std::byte> bytes) {
  const std::size_t count = outgoing_->writer.write(bytes);
  if (count == 0) return std::unexpected(EAGAIN);
  copied_ += count;
  if (outgoing_->writer.reader_wants_record()) {
    must_pulse_ = true;
    stir();
  }
  return count;
}

std::size_t Stream::receive_from_lane(std::span<std::byte> out, bool peek) {
  const std::size_t count = incoming_->read(out, peek);
  if (state_ == State::open && incoming_->take_writer_wants_record()) {
    must_pulse_ = true;
    stir();
  }
  return count;
}

void Stream::want_records() {
  if (incoming_) incoming_->bell().by_record = 1;
  if (outgoing_ && !outgoing_->writer.is_writable()) outgoing_->writer.bell().by_record = 1;
}

Result<void> Stream::on_lane(std::unique_ptr<LaneReader> lane) {
  if (is_over_) return {};
  if (state_ != State::open || fin_received_ || incoming_ || kind_ != ConnectionKind::bytes)
    return fail(Errc::protocol_error, "a lane where none can be");
  incoming_ = std::move(lane);
  if (is_orphan_ || (ends_ && shut_read())) want_records();
  on_pulse();
  return {};
}

void Stream::on_pulse() {
  if (is_over_) return;
  // As for data in frames: nobody will ever read it.
  if ((is_orphan_ || (ends_ && shut_read())) && has_lane_bytes()) {
    error_ = ECONNRESET;
    return reset_peer();
  }
  changed(true);
}

}  // namespace rdmc::sockets
