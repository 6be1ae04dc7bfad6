#include "lib/socket/stream.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <utility>

namespace rdmc::sockets {

/// Returns the errno if nothing can be sent now, otherwise nullopt.
std::optional<int> Stream::refusal() {
  if (state_ == State::connecting) return EAGAIN;
  if (state_ == State::open && error_ == 0 && !shut_write()) return std::nullopt;
  const int error = take_error();
  return error != 0 ? error : EPIPE;
}

Answer Stream::send(std::span<const std::byte> bytes, const void* caller) {
  if (caller != nullptr && caller == advertiser_) {
    if (has_chunk()) cancel_advert();
    if (outgoing_) gone_ += outgoing_->writer.collect();
    if (gone_ != 0) return std::exchange(gone_, 0);
  }
  if (const auto error = refusal()) return std::unexpected(*error);
  if (bytes.empty()) return 0;
  if (has_chunk()) return send_staged(bytes);  // These bytes must follow the chunks that wait.
  if (outgoing_ || takes_lane()) return send_in_lane(bytes, caller);
  if (takes_slots(bytes.size())) return send_staged(bytes);
  const std::size_t count = std::min(bytes.size(), kSendBytes - send_.size());
  if (count == 0) return std::unexpected(EAGAIN);
  send_.push(bytes.first(count));
  copied_ += count;
  stir();
  return count;
}

Answer Stream::check_send_whole(std::size_t bytes) {
  if (const auto error = refusal()) return std::unexpected(*error);
  const bool has_room = send_.empty() || send_.size() + bytes <= kSendBytes;
  refused_ = has_room ? 0 : bytes;
  return has_room ? Answer(bytes) : std::unexpected(EAGAIN);
}

Answer Stream::send_whole(std::span<const std::byte> head, std::span<const std::byte> bytes) {
  const Answer taken = check_send_whole(head.size() + bytes.size());
  if (!taken) return taken;
  send_.make_room(*taken);
  send_.push(head);
  send_.push(bytes);
  stir();
  return taken;
}

Answer Stream::send_whole(ByteQueue message) {
  assert(message.size() > kSendBytes);
  const Answer taken = check_send_whole(message.size());
  if (!taken) return taken;
  send_ = std::move(message);
  stir();
  return taken;
}

Answer Stream::receive(std::span<std::byte> out, bool peek) {
  if (has_unread()) {
    const std::size_t count = receive_due(out, peek);
    copied_ += count;
    stir();  // There may be receive credit to send now.
    // The count is 0 if the peer has cancelled its advert.
    if (count != 0 || out.empty()) return count;
  }
  if (incoming_ && incoming_->is_broken() && state_ != State::closed) {
    error_ = EPROTO;
    reset_peer();
  }
  if (fin_received_) return 0;
  if (const int error = take_error()) return std::unexpected(error);
  if (shut_read()) return 0;
  return std::unexpected(state_ == State::closed ? ENOTCONN : EAGAIN);
}

Answer Stream::shutdown(unsigned how) {
  if ((how & kShutWrite) != 0) cancel_advert();
  shut_ |= how;
  ends_ = ends_ || (state_ == State::open && (how & kShutWrite) != 0);
  stops_ = stops_ || (state_ == State::open && (how & kShutRead) != 0);
  changed();
  if (state_ == State::closed && (kind_ == ConnectionKind::bytes || !has_been_open_))
    return std::unexpected(ENOTCONN);
  if (ends_ && shut_read()) refuse_more();
  stir();
  return 0;
}

void Stream::close(bool abort) {
  watcher_ = nullptr;
  is_orphan_ = true;
  cancel_advert();
  const bool leaves_unread = has_unread();
  if (chunks_) chunks_->arrived.clear();  // Their slots must be given back now, under the lock.
  if (state_ == State::closed) return;
  refuse_more();
  if (abort || leaves_unread || state_ == State::connecting) {
    received_.clear();
    return reset_peer();
  }
  shut_ = kShutRead | kShutWrite;
  ends_ = stops_ = true;
  if (fin_sent_ && fin_received_ && !owes_stop()) {
    set_closed();
    if (outlet_ != nullptr)
      outlet_->on_wants_to_send(*this);  // The outlet notices that the stream has
                                         // ended.
  }
  stir();
}

void Stream::abandon(int error) {
  received_.clear();
  error_ = error;
  reset_peer();
}

int Stream::take_error() {
  return std::exchange(error_, 0);
}

short Stream::events() const {
  int events = 0;
  if (shut_ == (kShutRead | kShutWrite) || state_ == State::closed) events |= kHungUp;
  if (shut_read()) events |= kReadable | kPeerEnded;
  if (state_ != State::connecting) {
    if (has_unread()) events |= kReadable;
    if (shut_write() || has_room()) events |= kWritable;
  }
  if (error_ != 0) events |= kFailed;
  return static_cast<short>(events);
}

/// True if a send like the last one would be accepted. As in Linux, a third of the buffer must be free.
bool Stream::has_room() const {
  if (chunks_ && chunks_->must_wait && !takes_in_place()) return false;
  const bool may_copy = !chunks_ || chunks_->staged <= kMostStaged / 3 * 2;
  if (has_chunk()) return may_copy;
  if (outgoing_) return outgoing_->writer.is_writable();
  if (!may_copy) return false;
  if (refused_ != 0 && !send_.empty() && send_.size() + refused_ > kSendBytes) return false;
  return send_.size() <= kSendBytes / 3 * 2;
}

void Stream::take_the_place_of(Stream& last) {
  error_ = last.error_;
  shut_ = last.shut_;
  watcher_ = std::exchange(last.watcher_, nullptr);
}

void Stream::connect() {
  assert(state_ == State::closed);
  state_ = State::connecting;
}

void Stream::ask(Outlet& outlet, ConnectionId id) {
  assert(state_ == State::connecting);
  outlet_ = &outlet;
  id_ = id;
  is_over_ = false;
}

void Stream::on_accepted(std::uint64_t limit) {
  if (state_ != State::connecting) return;
  state_ = State::open;
  has_been_open_ = true;
  limit_ = limit;
  changed();
  stir();
}

void Stream::on_refused(int error) {
  if (state_ == State::connecting) fail_with(error);
}

void Stream::disconnect() {
  if (state_ == State::connecting) {
    reset_peer();
    error_ = ECONNRESET;
  }
  shut_ = 0;
  ends_ = stops_ = fin_received_ = stop_received_ = false;
  received_.clear();
  incoming_.reset();
  changed();
}

void Stream::accept(Outlet& outlet, ConnectionId id, std::uint64_t limit) {
  assert(state_ == State::closed);
  outlet_ = &outlet;
  id_ = id;
  limit_ = limit;
  granted_ = 0;
  is_narrow_ = true;
  state_ = State::open;
  has_been_open_ = true;
}

void Stream::let_go_on() {
  is_narrow_ = false;
  stir();
}

Result<void> Stream::on_data(std::span<const std::byte> bytes) {
  if (is_over_) return {};  // The peer has sent this record before it knew that this side has ended.
  if (state_ != State::open || fin_received_ || incoming_)
    return fail(Errc::protocol_error, "data where no stream is, or after its end");
  arrived_ += bytes.size();
  if (arrived_ > granted_) return fail(Errc::protocol_error, "more data than was granted");
  if (bytes.empty()) return fail(Errc::protocol_error, "data of no bytes");
  if (is_orphan_ || (ends_ && shut_read() && kind_ == ConnectionKind::bytes)) {
    // The application will never read these bytes (RFC 1122, 4.2.2.13).
    error_ = ECONNRESET;
    reset_peer();
    return {};
  }
  received_.push(bytes);
  changed(true);
  stir();  // At the beginning of a connection, receive credit may be due.
  return {};
}

Result<void> Stream::on_credit(std::uint64_t limit) {
  if (is_over_) return {};
  if (limit < limit_ || state_ != State::open) return fail(Errc::protocol_error, "credit that shrinks");
  limit_ = limit;
  stir();
  return {};
}

Result<void> Stream::on_fin() {
  if (is_over_) return {};
  if (state_ != State::open || fin_received_) return fail(Errc::protocol_error, "a stream that ends twice");
  fin_received_ = true;
  shut_ |= kShutRead;
  if (fin_sent_ && ends_with_both_halves()) set_closed();
  changed();
  return {};
}

Result<void> Stream::on_stop() {
  if (is_over_) return {};
  if (state_ != State::open || kind_ != ConnectionKind::messages)
    return fail(Errc::protocol_error, "a stop where no messages are");
  stop_received_ = true;
  shut_ |= kShutWrite;
  ends_ = true;
  changed();
  stir();
  return {};
}

void Stream::on_lost(int error) {
  must_reset_ = false;
  // As with AF_UNIX, a peer that has closed both directions may be gone before this side has answered.
  // This is no error if nothing waits to be sent.
  const bool has_ended = stop_received_ && fin_received_ && send_.empty() && !has_chunk();
  fail_with(has_ended ? 0 : error);
  outlet_ = nullptr;
}

int Stream::reset_error() const {
  if (state_ == State::connecting) return ECONNREFUSED;
  // The result is the same as in Linux's tcp_reset().
  return fin_received_ && !ends_ && kind_ == ConnectionKind::bytes ? EPIPE : ECONNRESET;
}

void Stream::fail_with(int error) {
  if (state_ == State::closed) return;
  error_ = error;
  set_closed();
  changed();
}

/// Ends the stream. Nothing more is sent, and data that arrives is ignored. Bytes that have arrived before
/// can still be read.
void Stream::set_closed() {
  state_ = State::closed;
  shut_ = kShutRead | kShutWrite;
  is_over_ = true;
  send_.clear();
  end_lane();
  if (chunks_) {
    chunks_->outgoing.clear();
    chunks_->to_grant.clear();
  }
}

void Stream::reset_peer() {
  set_closed();
  must_reset_ = outlet_ != nullptr;
  changed();
  stir();
}

/// True if receive credit must be sent. It is sent in steps of a quarter of the window. No credit is sent
/// before bytes have arrived, so an idle connection costs no such record.
bool Stream::owes_credit() const {
  return state_ == State::open && !fin_received_ && !is_narrow_ && (granted_ > kFirstBytes || arrived_ > 0) &&
         arrived_ - received_.size() + kWindowBytes - granted_ >= kWindowBytes / 4;
}

bool Stream::wants_to_send() const {
  if (must_reset_) return true;
  if (state_ != State::open) return false;
  if (must_pulse_ || (outgoing_ && !outgoing_->was_told() && send_.empty())) return true;
  if (chunks_ && (chunks_->must_ask || chunks_->must_refuse || !chunks_->to_grant.empty())) return true;
  return owes_credit() || owes_stop() || (!send_.empty() && sent_ < limit_) ||
         (send_.empty() && ends_ && !fin_sent_ && !has_chunk());
}

std::optional<Record> Stream::next(std::span<std::byte> body) {
  if (!wants_to_send()) return std::nullopt;
  Record record{.connection = id_};
  if (std::exchange(must_reset_, false)) {
    record.kind = RecordKind::reset;
  } else if (outgoing_ && !outgoing_->was_told() && send_.empty()) {
    record.kind = RecordKind::lane;
    record.limit = outgoing_->number();
    outgoing_->told();
  } else if (std::exchange(must_pulse_, false)) {
    record.kind = RecordKind::pulse;
  } else if (auto of_chunks = next_of_chunks()) {
    return of_chunks;
  } else if (owes_credit()) {
    record.kind = RecordKind::credit;
    record.limit = granted_ = arrived_ - received_.size() + kWindowBytes;
  } else if (owes_stop()) {
    record.kind = RecordKind::stop;
    stop_sent_ = true;
    if (fin_sent_ && fin_received_ && is_orphan_) set_closed();
  } else if (!send_.empty()) {
    record.kind = RecordKind::data;
    const auto allowed = std::min<std::uint64_t>(body.size(), limit_ - sent_);
    record.bytes = body.first(send_.peek(body.first(allowed)));
    sent_ += record.bytes.size();
    const bool was_writable = (events() & kWritable) != 0;
    send_.pop(record.bytes.size());
    if (!was_writable || send_.empty()) changed();
  } else {
    record.kind = RecordKind::fin;
    fin_sent_ = true;
    if (fin_received_ && ends_with_both_halves()) set_closed();
    changed();
  }
  return record;
}

void Stream::changed(bool data) {
  if (watcher_ != nullptr) watcher_->on_change(data);
}

void Stream::stir() {
  if (outlet_ != nullptr && wants_to_send()) outlet_->on_wants_to_send(*this);
}

}  // namespace rdmc::sockets
