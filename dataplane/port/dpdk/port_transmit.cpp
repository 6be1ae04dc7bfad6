// Sending. Each datagram of a train becomes a frame. The headers are written into a packet buffer. The
// payload is attached if the device reads it before the device's transmit function returns. Otherwise the
// payload is copied. Frames go to the device in bursts.
#include <rte_memcpy.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "dataplane/base/clock.hpp"
#include "dataplane/port/dpdk/dpdk_port.hpp"
#include "dataplane/port/dpdk/eal.hpp"

namespace rdmc::port::dpdk {
namespace {

/// The interval at which a path is looked up again. The lookup marks the neighbour as used. So the neighbour
/// is confirmed in time.
constexpr Duration kPathLife = seconds(1);

std::size_t index_of(const Address& destination, FlowId source) {
  std::uint64_t low = 0, high = 0;
  std::memcpy(&low, destination.bytes.data(), sizeof low);
  std::memcpy(&high, destination.bytes.data() + sizeof low, sizeof high);
  const std::uint64_t mixed =
      (low ^ high ^ std::uint64_t{destination.port} << 48 ^ value_of(source)) * 0x9E37'79B9'7F4A'7C15;
  return mixed >> 56;
}
static_assert(DpdkPort::kPaths == 256, "index_of gives eight bits");

}  // namespace

std::size_t DpdkPort::send_burst(std::span<const TxTrain> trains) {
  register_this_thread();
  if (!send_held()) {  // Held datagrams are sent first.
    ++counters_.send_refused;
    return 0;
  }
  Batch batch;
  // The index of the first train that the device did not accept completely.
  std::size_t unsent = trains.size();
  for (std::size_t i = 0; i < trains.size() && unsent == trains.size(); ++i) {
    assert(trains[i].segment_bytes > 0 && udp_port(trains[i].source) != 0);
    if (!send_train(trains[i], i, batch, unsent)) break;
  }
  flush(batch, unsent);
  if (unsent < trains.size()) ++counters_.send_refused;
  return unsent;
}

/// Makes the frames of a train. Hands frames to the device whenever a burst is complete. Returns false if
/// there is no space; then `unsent` is the index of the first train that must be sent again. The caller sends
/// that train again from its start. Datagrams of the train that have left already are then sent twice, which
/// is harmless because a network may also duplicate datagrams.
bool DpdkPort::send_train(const TxTrain& train, std::size_t index, Batch& batch, std::size_t& unsent) {
  if (train.total_bytes <= std::min<std::size_t>(train.segment_bytes, kLeastAttached)) {
    if (const Path& path = path_to(train.destination, train.source); path.headers) {
      ++counters_.trains_sent;
      return send_small(train, path, index, batch, unsent);
    }
  }
  PieceCutter payload(train.pieces);
  for (std::uint32_t left = train.total_bytes; left > 0;) {
    const std::uint32_t bytes = std::min(left, train.segment_bytes);
    left -= bytes;
    rte_mbuf* frame = nullptr;
    Outcome outcome = Outcome::done;
    if (bytes > info_.train_bytes || train.destination.ipv6 != info_.address.ipv6) {
      for (std::size_t skipped = 0; skipped < bytes;) skipped += payload.next(bytes - skipped).iov_len;
      ++counters_.send_failed;
    } else if (const Path& path = path_to(train.destination, train.source); path.headers) {
      outcome = make_frame(path, train.ecn_capable, payload, bytes, frame);
    } else {
      outcome = hold(train, path, payload, bytes);
    }
    if (outcome == Outcome::no_room) {
      unsent = index;
      return false;
    }
    if (outcome == Outcome::done) continue;
    batch.frames[batch.count] = frame;
    batch.train[batch.count++] = index;
    if (batch.count == kBurst && !flush(batch, unsent)) return false;
  }
  ++counters_.trains_sent;
  return true;
}

/// Sends a train of one datagram, which is copied completely. If messages are small, most trains have only
/// one datagram.
bool DpdkPort::send_small(const TxTrain& train, const Path& path, std::size_t index, Batch& batch,
                          std::size_t& unsent) {
  rte_mbuf* const frame = take_buffer();
  if (frame == nullptr) {
    unsent = index;
    return false;
  }
  std::byte* const start = rte_pktmbuf_mtod(frame, std::byte*);
  path.headers->write(start, train.total_bytes, train.ecn_capable);
  std::byte* end = start + path.headers->bytes();
  for (const iovec& piece : train.pieces) {
    rte_memcpy(end, piece.iov_base, piece.iov_len);
    end += piece.iov_len;
  }
  frame->data_len = static_cast<std::uint16_t>(end - start);
  frame->pkt_len = frame->data_len;
  batch.frames[batch.count] = frame;
  batch.train[batch.count++] = index;
  return batch.count < kBurst || flush(batch, unsent);
}

DpdkPort::Path& DpdkPort::path_to(const Address& destination, FlowId source) {
  Path& path = paths_[index_of(destination, source)];
  if (path.source == source && path.destination == destination &&
      path.generation == neighbours_.generation() && now_ < path.looked_up + kPathLife)
    return path;
  now_ = monotonic_now();
  const auto next_hop = neighbours_.lookup(destination, now_);
  path = {.destination = destination,
          .source = source,
          .generation = neighbours_.generation(),
          .looked_up = now_,
          .headers = std::nullopt,
          .asked_once = next_hop.asked_once};
  if (next_hop.state == Neighbours::Lookup::State::known) {
    Address from = info_.address;
    from.port = udp_port(source);
    path.headers.emplace(neighbours_.ours().mac, next_hop.mac, from, destination, traffic_class_);
  } else {
    path.looked_up = now_ - kPathLife;  // The path is looked up again at the next use.
    send_neighbour_messages();
  }
  return path;
}

DpdkPort::Outcome DpdkPort::make_frame(const Path& path, bool ecn_capable, PieceCutter& payload,
                                       std::size_t bytes, rte_mbuf*& frame) {
  frame = take_buffer();
  if (frame == nullptr) return Outcome::no_room;
  path.headers->write(rte_pktmbuf_mtod(frame, std::byte*), bytes, ecn_capable);
  frame->data_len = static_cast<std::uint16_t>(path.headers->bytes());
  frame->pkt_len = frame->data_len;
  rte_mbuf* last = frame;
  for (std::size_t left = bytes; left > 0;) {
    const iovec piece = payload.next(left);
    assert(piece.iov_len > 0 && "a train with fewer bytes in its pieces than it says");
    if (!append(frame, last, piece)) {
      rte_pktmbuf_free(frame);
      return Outcome::no_room;
    }
    left -= piece.iov_len;
  }
  return Outcome::made;
}

bool DpdkPort::append(rte_mbuf*& first, rte_mbuf*& last, const iovec& piece) {
  const bool attached = device_->reads_at_once() && piece.iov_len >= kLeastAttached;
  if (attached || RTE_MBUF_HAS_EXTBUF(last)) {
    rte_mbuf* const buffer = take_buffer();
    if (buffer == nullptr) return false;
    last->next = buffer;
    last = buffer;
    ++first->nb_segs;
  }
  if (attached) {
    attach(*last, piece);
  } else {
    rte_memcpy(rte_pktmbuf_mtod_offset(last, std::byte*, last->data_len), piece.iov_base, piece.iov_len);
  }
  last->data_len = static_cast<std::uint16_t>(last->data_len + piece.iov_len);
  first->pkt_len += static_cast<std::uint32_t>(piece.iov_len);
  return true;
}

/// Returns a packet buffer of the pool, or null if the pool is empty. Buffers are taken from the pool in
/// batches of kBurst.
rte_mbuf* DpdkPort::take_buffer() {
  if (spares_ == 0) {
    if (rte_pktmbuf_alloc_bulk(device_->buffers(), spare_.data(), kBurst) != 0)
      return rte_pktmbuf_alloc(device_->buffers());
    spares_ = kBurst;
  }
  return spare_[--spares_];
}

void DpdkPort::attach(rte_mbuf& buffer, const iovec& piece) {
  ++attached_;
  rte_pktmbuf_attach_extbuf(&buffer, piece.iov_base, RTE_BAD_IOVA, static_cast<std::uint16_t>(piece.iov_len),
                            &lent_payload_);
}

/// Hands frames to the device and returns how many were accepted. If the link is down, drops all frames and
/// counts them as accepted, so that no caller waits for a device that does not send.
std::uint16_t DpdkPort::to_device(rte_mbuf** frames, std::uint16_t count) {
  if (count == 0) return 0;
  if (link_is_lost()) {
    rte_pktmbuf_free_bulk(frames, count);
    counters_.send_failed += count;
    return count;
  }
  const MemifPass pass(gate());
  const std::uint16_t taken =
      pass ? rte_eth_tx_burst(device_->id(), Device::kQueue, frames, count) : std::uint16_t{0};
  counters_.datagrams_sent += taken;
  return taken;
}

/// Hands the batch to the device. Returns false, and sets `unsent`, if the device had no room for all frames.
bool DpdkPort::flush(Batch& batch, std::size_t& unsent) {
  const std::uint16_t sent = to_device(batch.frames.data(), batch.count);
  if (sent < batch.count) {
    unsent = batch.train[sent];
    rte_pktmbuf_free_bulk(&batch.frames[sent], batch.count - sent);
  }
  const bool all = sent == batch.count;
  batch.count = 0;
  assert(attached_ == 0 && "the device still refers to the caller's memory");
  return all;
}

/// Keeps a copy of a datagram until its neighbour is known. The datagram counts as sent.
DpdkPort::Outcome DpdkPort::hold(const TxTrain& train, const Path& path, PieceCutter& payload,
                                 std::size_t bytes) {
  const bool room = held_.size() < device_->buffers()->size / kHeldShare;
  rte_mbuf* const buffer = room ? rte_pktmbuf_alloc(device_->buffers()) : nullptr;
  if (buffer == nullptr && path.asked_once) return Outcome::no_room;
  for (std::size_t done = 0; done < bytes;) {
    const iovec piece = payload.next(bytes - done);
    if (buffer != nullptr)
      std::memcpy(rte_pktmbuf_append(buffer, static_cast<std::uint16_t>(piece.iov_len)), piece.iov_base,
                  piece.iov_len);
    done += piece.iov_len;
  }
  if (buffer == nullptr) {
    ++counters_.send_failed;
    return Outcome::done;
  }
  if (held_.empty()) held_generation_ = path.generation;
  held_.push_back({buffer, train.destination, train.source, train.ecn_capable});
  return Outcome::done;
}

/// Sends held datagrams whose neighbour is known now. Drops those whose neighbour does not answer. Returns
/// false if the device has no space. The other datagrams then stay held, and later datagrams must not
/// overtake them.
bool DpdkPort::send_held() {
  if (held_.empty() || held_generation_ == neighbours_.generation()) return true;
  const std::uint64_t generation = neighbours_.generation();
  bool room = true;
  std::erase_if(held_, [&](const Held& held) {
    if (!room) return false;
    const Outcome outcome = send_held(held);
    room = outcome != Outcome::no_room;
    return outcome == Outcome::made;
  });
  if (room) held_generation_ = generation;
  return room;
}

/// Returns `made` if the datagram was sent or dropped, `done` if it stays held, and `no_room` if the device
/// has no space.
DpdkPort::Outcome DpdkPort::send_held(const Held& held) {
  const Path& path = path_to(held.destination, held.source);
  if (!path.headers) {
    if (neighbours_.lookup(held.destination, now_).state == Neighbours::Lookup::State::resolving)
      return Outcome::done;
    ++counters_.send_failed;
    rte_pktmbuf_free(held.payload);
    return Outcome::made;
  }
  const std::uint32_t bytes = held.payload->pkt_len;
  const auto header_bytes = static_cast<std::uint16_t>(path.headers->bytes());
  char* const header = rte_pktmbuf_prepend(held.payload, header_bytes);
  path.headers->write(reinterpret_cast<std::byte*>(header), bytes, held.ecn_capable);
  rte_mbuf* frame = held.payload;
  if (to_device(&frame, 1) == 0) {
    rte_pktmbuf_adj(held.payload, header_bytes);
    return Outcome::no_room;
  }
  return Outcome::made;
}

void DpdkPort::send_neighbour_messages() {
  while (const auto message = neighbours_.poll()) {
    rte_mbuf* const frame = rte_pktmbuf_alloc(device_->buffers());
    if (frame == nullptr) return;
    std::byte* const bytes = rte_pktmbuf_mtod(frame, std::byte*);
    const std::size_t size = write_neighbour(*message, {bytes, kMostNeighbourBytes});
    rte_pktmbuf_append(frame, static_cast<std::uint16_t>(size));
    send_now(frame);
  }
}

/// Sends one frame alone. Drops the frame if the device has no space.
void DpdkPort::send_now(rte_mbuf* frame) {
  if (to_device(&frame, 1) == 1) return;
  ++counters_.send_failed;
  rte_pktmbuf_free(frame);
}

}  // namespace rdmc::port::dpdk
