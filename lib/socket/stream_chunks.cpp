// The part of a stream for large messages, which are written straight into the peer's memory (see
// chunks.hpp). It decides when a chunk may leave, and in which order arrived bytes are read.
#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "lib/socket/stream.hpp"

namespace rdmc::sockets {
namespace {

/// The most sends that wait for slots of the peer. One more send in place waits until one of them has left.
constexpr std::size_t kMostQueued = 16;

}  // namespace

Stream::Chunks& Stream::chunks() {
  if (!chunks_) chunks_ = std::make_unique<Chunks>();
  return *chunks_;
}

Answer Stream::send_in_place(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                             std::uint64_t& number) {
  if (const auto error = refusal()) return std::unexpected(*error);
  Chunks& mine = chunks();
  number = mine.asked;
  if (bytes.empty()) return 0;
  if (mine.is_refused) return send(bytes);
  ask_for_slots();
  mine.must_wait = !takes_in_place();
  if (mine.must_wait) return std::unexpected(EAGAIN);
  mine.outgoing.push_back({.bytes = bytes, .owner = std::move(owner), .number = mine.asked + 1});
  number = ++mine.asked;
  outlet_->on_wants_to_send(*this);
  return bytes.size();
}

bool Stream::takes_in_place() const {
  return chunks_->is_answered && (chunks_->is_refused || chunks_->outgoing.size() < kMostQueued);
}

void Stream::ask_for_slots() {
  Chunks& mine = chunks();
  if (std::exchange(mine.has_asked, true)) return;
  mine.must_ask = true;
  stir();
}

/// True if a send of this length goes to slots, as a copy. Also asks for slots when the stream has sent
/// enough bytes.
bool Stream::takes_slots(std::size_t bytes) {
  if (bytes < kLeastInSlot || outgoing_ || kind_ != ConnectionKind::bytes) return false;
  if (sent_ >= kBytesBeforeSlots) ask_for_slots();
  return chunks_ && chunks_->is_answered && !chunks_->is_refused;
}

/// Appends `bytes` to everything that waits to be written. They go to the last copy while it has space, and
/// otherwise to a new copy.
Answer Stream::send_staged(std::span<const std::byte> bytes) {
  if (needs_copy()) {
    auto copy = new_copy();
    if (!copy) return std::unexpected(EAGAIN);
    chunks_->outgoing.push_back(std::move(*copy));
    ++chunks_->staged;
  }
  Chunk& last = chunks_->outgoing.back();
  const std::size_t count = std::min(bytes.size(), last.room());
  std::memcpy(last.copy + last.bytes.size(), bytes.data(), count);
  last.bytes = {last.copy, last.bytes.size() + count};
  copied_ += count;
  outlet_->on_wants_to_send(*this);
  return count;
}

std::optional<Chunk> Stream::new_copy() {
  auto memory = chunks_->staged < kMostStaged ? outlet_->take_copy() : nullptr;
  if (memory == nullptr) return std::nullopt;
  std::byte* const copy = memory.get();
  return Chunk{.bytes = {copy, 0}, .owner = std::move(memory), .copy = copy};
}

std::optional<Chunk> Stream::begin_copy(std::size_t bytes) {
  if (bytes < kLeastInSlot || state_ != State::open || error_ != 0 || shut_write()) return std::nullopt;
  if (!has_chunk() && (outgoing_ || takes_lane() || !takes_slots(bytes))) return std::nullopt;
  auto copy = needs_copy() ? new_copy() : std::nullopt;
  if (!copy) return std::nullopt;
  ++chunks_->staged;
  copy->bytes = {copy->copy, std::min(bytes, copy->room())};
  return copy;
}

Answer Stream::end_copy(Chunk copy) {
  if (const auto error = refusal()) {
    --chunks_->staged;
    return std::unexpected(*error);
  }
  const std::size_t count = copy.bytes.size();
  try {
    chunks_->outgoing.push_back(std::move(copy));
  } catch (const std::bad_alloc&) {
    --chunks_->staged;
    throw;
  }
  copied_ += count;
  outlet_->on_wants_to_send(*this);
  return count;
}

bool Stream::is_sent(std::uint64_t number) const {
  if (!chunks_ || number <= chunks_->sent) return true;
  return chunks_->is_refused || (state_ == State::closed && chunks_->under_way == 0);
}

/// Returns the next chunk. A chunk may leave only after all records before it. The channel keeps the order.
std::optional<ChunkWrite> Stream::next_chunk() {
  if (state_ != State::open || !has_chunk() || chunks_->grants.empty() || !send_.empty()) return std::nullopt;
  if (outgoing_ && !outgoing_->was_told()) return std::nullopt;
  // The bytes in the lane are published, and the peer reads them before this chunk.
  end_lane();
  Chunk& front = chunks_->outgoing.front();
  ChunkWrite next{.chunk = front, .grant = chunks_->grants.front()};
  chunks_->grants.pop_front();
  ++chunks_->under_way;
  if (front.bytes.size() > SlotMemory::kSlotBytes) {
    next.chunk.bytes = front.bytes.first(SlotMemory::kSlotBytes);
    next.chunk.number = 0;
    front.bytes = front.bytes.subspan(SlotMemory::kSlotBytes);
    return next;
  }
  chunks_->outgoing.pop_front();
  changed();
  stir();
  return next;
}

void Stream::on_chunk_sent(const Chunk& chunk) {
  --chunks_->under_way;
  if (chunk.copy != nullptr) --chunks_->staged;
  if (chunk.number != 0) chunks_->sent = chunk.number;
  changed();
}

Result<void> Stream::on_grant(const Grant& grant) {
  if (is_over_) return {};
  if (!chunks_ || !chunks_->has_asked || chunks_->must_ask || chunks_->is_refused)
    return fail(Errc::protocol_error, "slots that nobody has asked for");
  Chunks& mine = *chunks_;
  if (grant.slot == Grant::kNone
          ? mine.is_answered
          : grant.slot >= SlotMemory::kSlots || mine.grants.size() >= SlotMemory::kSlotsPerStream)
    return fail(Errc::protocol_error, "more slots than there are");
  mine.is_answered = true;
  if (grant.slot == Grant::kNone)
    mine.is_refused = true;
  else
    mine.grants.push_back(grant);
  changed();
  return {};
}

Result<void> Stream::on_bulk() {
  if (is_over_) return {};
  if (state_ != State::open || fin_received_ || kind_ != ConnectionKind::bytes ||
      std::exchange(chunks().was_asked, true))
    return fail(Errc::protocol_error, "slots are asked for where none can be, or again");
  return {};
}

void Stream::grant(std::deque<OwnedSlot> slots) {
  if (is_over_) return;
  chunks_->must_refuse = slots.empty();
  chunks_->to_grant = std::move(slots);
  stir();
}

Result<void> Stream::on_chunk(std::uint32_t slot, std::size_t bytes) {
  auto& granted = chunks().granted;
  const auto found =
      std::ranges::find_if(granted, [&](const OwnedSlot& one) { return one.number() == slot; });
  if (found == granted.end() || bytes == 0 || bytes > SlotMemory::kSlotBytes)
    return fail(Errc::protocol_error, "a large message where none was granted");
  OwnedSlot filled = std::move(*found);
  granted.erase(found);
  if (is_over_) return {};
  if (state_ != State::open || fin_received_)
    return fail(Errc::protocol_error, "data where no stream is, or after its end");
  if (is_orphan_ || (ends_ && shut_read())) {
    error_ = ECONNRESET;
    reset_peer();
    return {};
  }
  if (incoming_) {  // A chunk ends the use of the lane.
    if (const std::size_t last = incoming_->in_ring(); last > 0) {
      ArrivedChunk& rest = chunks_->arrived.emplace_back();
      rest.copied.resize(last);
      rest.bytes = std::span(rest.copied).first(incoming_->read(rest.copied, false));
      rest.position = arrived_;
      copied_ += last;
    }
    incoming_.reset();
  }
  ArrivedChunk& last = chunks_->arrived.emplace_back();
  last.bytes = filled.bytes().first(bytes);
  last.position = arrived_;
  last.slot.emplace(std::move(filled));
  changed(true);
  return {};
}

bool Stream::is_chunk_due() const {
  return chunks_ && !chunks_->arrived.empty() &&
         chunks_->arrived.front().position == arrived_ - received_.size();
}

/// How many bytes of `received_` come before the next chunk.
std::size_t Stream::queue_due() const {
  if (!chunks_ || chunks_->arrived.empty()) return received_.size();
  return static_cast<std::size_t>(chunks_->arrived.front().position - (arrived_ - received_.size()));
}

std::size_t Stream::unread() const {
  std::size_t bytes = received_.size();
  if (incoming_) bytes += incoming_->in_ring();
  if (chunks_ && !chunks_->arrived.empty()) bytes += chunks_->arrived.front().bytes.size();
  return bytes;
}

std::size_t Stream::read_queue(std::span<std::byte> out, bool peek) {
  const std::size_t count = received_.peek(out.first(std::min(out.size(), queue_due())));
  if (!peek) received_.pop(count);
  return count;
}

std::size_t Stream::receive_due(std::span<std::byte> out, bool peek) {
  std::size_t done = read_queue(out, peek);
  if (done < out.size() && has_lane_bytes()) done += receive_from_lane(out.subspan(done), peek);
  while (done < out.size() && is_chunk_due()) {
    ArrivedChunk& front = chunks_->arrived.front();
    const auto part = front.bytes.first(std::min(front.bytes.size(), out.size() - done));
    std::memcpy(out.data() + done, part.data(), part.size());
    done += part.size();
    if (peek) break;
    front.bytes = front.bytes.subspan(part.size());
    if (!front.bytes.empty()) break;
    auto slot = std::move(front.slot);
    chunks_->arrived.pop_front();
    if (slot) give_back(std::move(*slot));
    done += read_queue(out.subspan(done), false);
  }
  return done;
}

std::optional<ArrivedChunk> Stream::take_chunk(std::size_t most) {
  if (!is_chunk_due()) return std::nullopt;
  const ArrivedChunk& next = chunks_->arrived.front();
  if (!next.slot || next.bytes.size() > most) return std::nullopt;
  ArrivedChunk first = std::move(chunks_->arrived.front());
  chunks_->arrived.pop_front();
  return first;
}

void Stream::give_back(OwnedSlot slot) {
  if (state_ != State::open || fin_received_) return;
  chunks_->to_grant.push_back(std::move(slot));
  stir();
}

std::deque<OwnedSlot> Stream::take_granted() {
  return chunks_ ? std::exchange(chunks_->granted, {}) : std::deque<OwnedSlot>();
}

std::optional<Record> Stream::next_of_chunks() {
  if (!chunks_) return std::nullopt;
  Record record{.connection = id_};
  if (std::exchange(chunks_->must_ask, false)) {
    record.kind = RecordKind::bulk;
  } else if (std::exchange(chunks_->must_refuse, false)) {
    record.kind = RecordKind::grant;
    record.grant.slot = Grant::kNone;
  } else if (!chunks_->to_grant.empty()) {
    record.kind = RecordKind::grant;
    record.grant = chunks_->to_grant.front().grant();
    outlet_->on_granted(*this, chunks_->to_grant.front());
    chunks_->granted.push_back(std::move(chunks_->to_grant.front()));
    chunks_->to_grant.pop_front();
  } else {
    return std::nullopt;
  }
  return record;
}

}  // namespace rdmc::sockets
