#include "lib/socket/mux.hpp"

#include <cassert>
#include <cerrno>
#include <new>
#include <utility>

#include "dataplane/base/types.hpp"

namespace rdmc::sockets {

void Mux::open(const std::shared_ptr<Stream>& stream, const Address& from, const Address& to) {
  const ConnectionId id{std::exchange(next_id_, next_id_ + 2)};
  if (is_lost_) return stream->on_refused(ECONNRESET);
  add(id, stream);
  stream->ask(*this, id);
  const auto kind = stream->kind() == ConnectionKind::messages ? RecordKind::open_messages : RecordKind::open;
  say({.kind = kind, .connection = id, .limit = stream->limit(), .from = from, .to = to});
}

void Mux::add(ConnectionId id, const std::shared_ptr<Stream>& stream) {
  ready_.make_room(streams_.size() + 1);
  chunkers_.make_room(streams_.size() + 1);
  streams_.emplace(id, Entry{.stream = stream});
}

void Mux::say(const Record& record) {
  controls_.push_back(record);
  if (kick_) kick_();
}

bool Mux::asks_elsewhere(const std::shared_ptr<Stream>& stream) {
  if (stream->state() != Stream::State::connecting || !opens_.on_refused(stream)) return false;
  stream->forget_outlet();
  return true;
}

void Mux::accept(ConnectionId id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;  // the peer has withdrawn the connection
  found->second.stream->let_begin();
  say({.kind = RecordKind::accepted, .connection = id, .limit = found->second.stream->limit()});
}

Result<void> Mux::on_frame(std::span<const std::byte> records) {
  while (!records.empty()) {
    const auto record = take_record(records);
    if (!record) return std::unexpected(record.error());
    auto heard = is_open(record->kind) ? on_open(*record) : on_record(*record);
    if (!heard) return heard;
  }
  return {};
}

Result<void> Mux::on_open(const Record& record) {
  const auto number = value_of(record.connection);
  if (is_own(record.connection) || number <= newest_of_peer_)
    return fail(Errc::protocol_error, "a connection by a number that is not its own");
  newest_of_peer_ = number;
  if (controls_.size() >= kMostAnswers)
    return fail(Errc::protocol_error, "a peer that asks and does not hear the answers");
  const auto kind =
      record.kind == RecordKind::open_messages ? ConnectionKind::messages : ConnectionKind::bytes;
  const auto stream = std::make_shared<Stream>(kind);
  add(record.connection, stream);
  stream->accept(*this, record.connection, record.limit);
  const Asked asked{weak_from_this(), record.connection, record.from, record.to, kind};
  if (opens_.on_open(asked, stream)) return {};
  streams_.erase(record.connection);
  say({.kind = RecordKind::refused, .connection = record.connection});
  return {};
}

void Mux::use_lanes(std::shared_ptr<LanePool> lanes, bool ready) {
  lanes_ = std::move(lanes);
  lanes_are_ready_ = ready;
  if (ready) say({.kind = RecordKind::lanes});
}

std::unique_ptr<ClaimedLane> Mux::claim_lane() {
  const auto lane = lanes_are_ready_ && !is_lost_ ? lanes_->claim() : std::nullopt;
  if (!lane) return nullptr;
  try {
    return std::make_unique<ClaimedLane>(lanes_, *lane);
  } catch (const std::bad_alloc&) {
    lanes_->release(*lane, false);
    throw;
  }
}

/// Handles a record that names a lane. `stream` is null if the connection has ended on this side.
Result<void> Mux::on_lane(const Record& record, Stream* stream) {
  if (lanes_ == nullptr || !lanes_->is_peers(record.limit))
    return fail(Errc::protocol_error, "a lane that is not the peer's");
  const auto number = static_cast<unsigned>(record.limit);
  if (stream != nullptr && !stream->is_over())
    return stream->on_lane(std::make_unique<LaneReader>(lanes_->memory(number)));
  lanes_->leave(number);
  return {};
}

Result<void> Mux::on_record(const Record& record) {
  if (record.kind == RecordKind::lanes) {
    if (lanes_ == nullptr) return fail(Errc::protocol_error, "a peer takes lanes that were never offered");
    lanes_are_ready_ = true;
    return {};
  }
  const auto found = streams_.find(record.connection);
  // The peer may have sent records before it knew that this side has ended the connection. These records are
  // ignored.
  if (found == streams_.end()) {
    const bool is_last =
        record.kind == RecordKind::bulk || record.kind == RecordKind::fin || record.kind == RecordKind::reset;
    if (is_last) fenced_.erase(record.connection);
    return record.kind == RecordKind::lane ? on_lane(record, nullptr) : Result<void>{};
  }
  const auto stream = found->second.stream;
  Result<void> heard;
  switch (record.kind) {
    case RecordKind::accepted: stream->on_accepted(record.limit); break;
    case RecordKind::refused:
      if (stream->state() != Stream::State::connecting)
        return fail(Errc::protocol_error, "a connection that is refused after its beginning");
      if (asks_elsewhere(stream))
        streams_.erase(record.connection);
      else
        stream->on_refused(ECONNREFUSED);
      break;
    case RecordKind::data: heard = stream->on_data(record.bytes); break;
    case RecordKind::credit: heard = stream->on_credit(record.limit); break;
    case RecordKind::lane: heard = on_lane(record, stream.get()); break;
    case RecordKind::pulse: stream->on_pulse(); break;
    case RecordKind::bulk:
      if ((heard = stream->on_bulk())) on_bulk(record.connection);
      break;
    case RecordKind::grant: heard = stream->on_grant(record.grant); break;
    case RecordKind::fin: heard = stream->on_fin(); break;
    case RecordKind::stop: heard = stream->on_stop(); break;
    default:
      stream->on_reset();
      // The peer writes no more. The last record, which is sent below, informs it that this side writes no
      // more either.
      (void)stream->take_granted();
      if (stream->has_chunks()) say({.kind = RecordKind::bulk, .connection = record.connection});
      break;
  }
  forget_if_over(record.connection);
  return heard;
}

std::size_t Mux::fill(std::span<std::byte> out) {
  assert(out.size() >= kMostControlBytes);
  std::size_t used = 0;
  for (; !controls_.empty() && out.size() - used >= kMostControlBytes; controls_.pop_front())
    used += encode(controls_.front(), out.subspan(used));
  if (!controls_.empty()) return used;
  // The stream that has waited longest is served first. If it has more to send afterwards, it goes to the end
  // of the queue.
  for (std::size_t turns = ready_.size(); turns > 0 && out.size() - used >= kMostControlBytes; --turns) {
    const ConnectionId id = ready_.pop();
    const auto found = streams_.find(id);
    if (found == streams_.end()) continue;
    found->second.is_ready = false;
    const auto stream = found->second.stream;
    while (out.size() - used >= kMostControlBytes) {
      const auto record = stream->next(out.subspan(used + kRecordHeadBytes));
      if (!record) break;
      used += encode(*record, out.subspan(used));
    }
    if (stream->wants_to_send()) on_wants_to_send(*stream);
    forget_if_over(id);
  }
  return used;
}

void Mux::on_wants_to_send(Stream& stream) noexcept {
  const auto found = streams_.find(stream.id());
  if (found == streams_.end()) return;
  if (stream.has_chunk() && !std::exchange(found->second.is_chunker, true)) chunkers_.push(stream.id());
  if (std::exchange(found->second.is_ready, true)) return;
  ready_.push(stream.id());
  if (kick_) kick_();
}

void Mux::forget_if_over(ConnectionId id) {
  const auto found = streams_.find(id);
  if (found == streams_.end() || !found->second.stream->is_over() || found->second.stream->wants_to_send())
    return;
  fence(id, *found->second.stream);
  found->second.stream->forget_outlet();
  streams_.erase(found);
}

Mux::~Mux() {
  for (auto& [id, entry] : streams_) entry.stream->on_lost(ECONNRESET);
}

void Mux::lose(int error) {
  is_lost_ = true;
  for (auto& [id, entry] : std::exchange(streams_, {})) {
    if (!asks_elsewhere(entry.stream)) entry.stream->on_lost(error);
  }
  controls_.clear();
  ready_.clear();
  chunkers_.clear();
  fenced_.clear();
  askers_.clear();
  // The memory of lanes and slots is freed with the trunk. Streams keep the parts that were not read yet.
  lanes_.reset();
  slots_.reset();
}

}  // namespace rdmc::sockets
