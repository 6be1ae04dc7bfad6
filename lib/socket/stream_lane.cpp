// The part of a stream for lanes. The application's bytes do not pass through the stream, but the stream
// keeps the state of the connection.
#include <algorithm>
#include <cassert>
#include <cerrno>
#include <utility>

#include "lib/socket/stream.hpp"

namespace rdmc::sockets {

/// Gets a lane for everything that is sent from now on. The peer is informed of the lane after all records
/// before it, so the order is kept.
bool Stream::takes_lane() {
  if (chunks_ && chunks_->has_asked)
    return false;  // Records keep their order among chunks, but a lane would
                   // not.
  sends_ += sends_ < kSendsBeforeLane;
  if (sent_ < kBytesBeforeLane && sends_ < kSendsBeforeLane) return false;
  outgoing_ = outlet_->claim_lane();
  if (!outgoing_) return false;
  stir();
  return true;
}

bool Stream::would_lend(std::size_t bytes, const void* caller) const {
  return outgoing_ && !has_chunk() && caller != nullptr &&
         (advertiser_ == nullptr || advertiser_ == caller) && bytes >= kLeastAdvertised &&
         outgoing_->writer.may_advertise() && !outgoing_->writer.is_advertising();
}

Answer Stream::send_in_lane(std::span<const std::byte> bytes, const void* caller) {
  LaneWriter& writer = outgoing_->writer;
  const bool was_advertised = writer.is_advertising();
  if (was_advertised && caller != advertiser_) return std::unexpected(EAGAIN);
  // The reader has copied no byte of the advert. So this cancels the advert, and copies as many bytes as
  // there is space for.
  if (was_advertised) cancel_advert();
  if (gone_ != 0 && was_advertised) return std::exchange(gone_, 0);
  const bool is_worth_it = would_lend(bytes.size(), caller);
  std::size_t count = 0;
  if (was_advertised || !is_worth_it) count = writer.write(bytes);
  copied_ += count;
  if (count == 0 && is_worth_it) {
    const std::size_t most = std::min(bytes.size() - kBehindAdvert, LaneWriter::kMostAdvertised);
    advertiser_ = caller;
    copied_ += writer.advertise(bytes.first(most), bytes.subspan(most));
  } else if (count == 0) {
    return std::unexpected(EAGAIN);
  }
  if (writer.reader_wants_record()) {
    must_pulse_ = true;
    stir();
  }
  return count != 0 ? Answer(count) : std::unexpected(EAGAIN);
}

void Stream::cancel_advert() {
  if (outgoing_) gone_ += outgoing_->writer.cancel();
}

void Stream::end_lane() {
  cancel_advert();
  outgoing_.reset();
}

std::optional<std::size_t> Stream::take_back(const void* caller) {
  if (caller != advertiser_) return std::nullopt;
  advertiser_ = nullptr;
  const bool was_advertised = outgoing_ && outgoing_->writer.is_advertising();
  cancel_advert();
  if (was_advertised) changed();  // Other calls may have waited for the end of the advert.
  return std::exchange(gone_, 0);
}

std::size_t Stream::receive_from_lane(std::span<std::byte> out, bool peek) {
  const std::size_t count = incoming_->read(out, peek);
  answer_writer();
  return count;
}

/// Sends a record if the peer's writer has requested one for the time when there is space.
void Stream::answer_writer() {
  if (state_ != State::open || !incoming_->take_writer_wants_record()) return;
  must_pulse_ = true;
  stir();
}

std::optional<Loan> Stream::lent(std::size_t most, std::size_t peeked) {
  if (!incoming_ || peeked < received_.size()) return std::nullopt;
  auto bytes = incoming_->lent(most, peeked - received_.size());
  if (!bytes) return std::nullopt;
  return Loan{.lane = incoming_, .bytes = std::move(*bytes)};
}

std::size_t Stream::settle(const Loan& loan, std::size_t count, bool peek) {
  if (loan.lane != incoming_) return 0;  // The lane has ended meanwhile.
  const std::size_t counted = incoming_->settle(loan.bytes, count, peek);
  copied_ += counted;
  answer_writer();
  return counted;
}

void Stream::decline(const Loan& loan) {
  if (loan.lane == incoming_) incoming_->decline();
}

void Stream::want_records() {
  if (incoming_) incoming_->bell().by_record = 1;
  if (outgoing_ && !outgoing_->writer.is_writable()) outgoing_->writer.bell().by_record = 1;
}

/// Called when no bytes that arrive from now on will be read, so that the peer is informed. Bytes that have
/// arrived before a shutdown can still be read.
void Stream::refuse_more() {
  want_records();
  if (!incoming_) return;
  is_orphan_ ? incoming_->refuse() : incoming_->refuse_after();
  if (state_ == State::open && incoming_->has_refused()) on_pulse();  // The peer has sent bytes already.
}

Result<void> Stream::on_lane(std::unique_ptr<LaneReader> lane) {
  if (is_over_) return {};
  if (state_ != State::open || fin_received_ || incoming_ || kind_ != ConnectionKind::bytes)
    return fail(Errc::protocol_error, "a lane where none can be");
  incoming_ = std::move(lane);
  if (is_orphan_ || (ends_ && shut_read())) {
    want_records();
    incoming_->refuse();
  }
  on_pulse();
  return {};
}

void Stream::on_pulse() {
  if (is_over_) return;
  // These bytes will never be read. The same rule applies to data in frames (see on_data()).
  if (incoming_ && incoming_->has_refused()) {
    error_ = ECONNRESET;
    return reset_peer();
  }
  changed(true);
}

}  // namespace rdmc::sockets
