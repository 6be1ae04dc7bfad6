// A port in memory for fuzz targets. It makes three checks that real ports cannot make:
// - The scatter list contains only memory that a peer may write.
// - Sent bytes are in memory that may leave, or in memory of the fabric. A fabric that encrypts sends only
//   memory of its own.
// - Sent datagrams can be parsed.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "dataplane/crypto/packet_seal.hpp"
#include "dataplane/roce/headers.hpp"
#include "dataplane/roce/management_datagram.hpp"
#include "tests/dataplane/port/memory_port.hpp"
#include "tests/fuzz/guarded_memory.hpp"

namespace rdmc::fuzz {

class WatchedPort final : public port::testing::MemoryPort {
 public:
  static constexpr std::uint32_t kTrainSegments = 4;

  WatchedPort(GuardedMemory& memory, const Address& address, bool same_host_only, bool encrypted)
      : MemoryPort({.driver = "watched",
                    .address = address,
                    .mtu = 1500,
                    .train_segments = kTrainSegments,
                    .train_bytes = 8192,
                    .receive_train_segments = kTrainSegments,
                    .identification_counts_up = true,
                    .same_host_only = same_host_only,
                    .receive_buffer_bytes = 1 << 16}),
        memory_(memory),
        encrypted_(encrypted) {}

  /// A train to `flow`. Its datagrams have `segment_bytes` bytes, but the last one may be shorter.
  struct Arrival {
    port::FlowId flow = port::kSharedFlow;
    Address source;
    std::vector<std::byte> bytes;
    std::uint32_t segment_bytes = 0;
    bool congestion_experienced = false;
  };
  void deliver(Arrival arrival) {
    if (arrival.bytes.empty()) return;  // Ports never deliver empty datagrams.
    arrival.segment_bytes = std::max<std::uint32_t>(arrival.segment_bytes, 1);
    delivered += (arrival.bytes.size() + arrival.segment_bytes - 1) / arrival.segment_bytes;
    waiting_.push_back(std::move(arrival));
  }

  std::size_t room = SIZE_MAX;      ///< How many trains the port accepts before it is full.
  std::uint64_t delivered = 0;      ///< The number of delivered datagrams, including those that still wait.
  std::uint64_t taken_to_send = 0;  ///< The number of datagrams that were accepted for sending.
  std::function<void(const roce::Packet&)> on_sent = [](const roce::Packet&) {};
  bool has_waiting() const { return !waiting_.empty(); }

  std::size_t send_burst(std::span<const port::TxTrain> trains) override;
  std::size_t receive_burst(port::ScatterPlanner& planner, std::span<port::RxTrain> out) override;

 private:
  /// The memory of a received train. The payload is scattered as planned. All other bytes are in a block of
  /// exactly their size.
  struct Landed {
    std::array<iovec, 2 * kTrainSegments + 2> pieces;
    std::unique_ptr<std::byte[]> rest;
  };
  void check_datagram(std::span<const std::byte> datagram);

  GuardedMemory& memory_;
  const bool encrypted_;
  std::deque<Arrival> waiting_;
  std::vector<Landed> landed_;
};

inline std::size_t WatchedPort::send_burst(std::span<const port::TxTrain> trains) {
  std::size_t taken = 0;
  for (; taken < trains.size() && room > 0; ++taken, --room) {
    const port::TxTrain& train = trains[taken];
    std::vector<std::byte> bytes;
    for (const iovec& piece : train.pieces) {
      const std::span from(static_cast<const std::byte*>(piece.iov_base), piece.iov_len);
      require(!memory_.contains(from) || (memory_.is_readable(from) && !encrypted_));
      bytes.insert(bytes.end(), from.begin(), from.end());
    }
    require(bytes.size() == train.total_bytes && train.segment_bytes > 0);
    for (std::span<const std::byte> rest = bytes; !rest.empty();) {
      const auto datagram = rest.first(std::min<std::size_t>(train.segment_bytes, rest.size()));
      rest = rest.subspan(datagram.size());
      check_datagram(datagram);
      ++taken_to_send;
    }
  }
  return taken;
}

inline void WatchedPort::check_datagram(std::span<const std::byte> datagram) {
  if (roce::is_datagram_send(datagram)) return require(roce::parse_management(datagram).has_value());
  const std::size_t beyond_icrc = encrypted_ ? crypto::kSealBytes - roce::kIcrcBytes : 0;
  require(datagram.size() > beyond_icrc);
  const auto packet = roce::parse_packet(datagram.first(datagram.size() - beyond_icrc));
  require(packet.has_value());
  on_sent(*packet);
}

inline std::size_t WatchedPort::receive_burst(port::ScatterPlanner& planner, std::span<port::RxTrain> out) {
  landed_.clear();
  landed_.resize(out.size());
  std::size_t count = 0;
  for (; count < out.size() && !waiting_.empty(); ++count) {
    const Arrival arrival = std::move(waiting_.front());
    waiting_.pop_front();
    Landed& landed = landed_[count];
    const std::span pieces(landed.pieces);
    const std::size_t planned =
        arrival.flow == port::kSharedFlow
            ? 0
            : planner.plan(arrival.flow, static_cast<std::uint32_t>(count), pieces.first(pieces.size() - 1));
    require(planned < pieces.size());
    std::span<const std::byte> rest = arrival.bytes;
    std::size_t used = 0;
    for (; used < planned && !rest.empty(); ++used) {
      iovec& piece = pieces[used];
      piece.iov_len = std::min(piece.iov_len, rest.size());
      const std::span to(static_cast<std::byte*>(piece.iov_base), piece.iov_len);
      require(!memory_.contains(to) || memory_.is_writable(to));
      std::ranges::copy(rest.first(to.size()), to.begin());
      rest = rest.subspan(to.size());
    }
    if (!rest.empty()) {
      landed.rest = std::make_unique<std::byte[]>(rest.size());
      std::ranges::copy(rest, landed.rest.get());
      pieces[used++] = {landed.rest.get(), rest.size()};
    }
    out[count] = {.flow = arrival.flow,
                  .source = arrival.source,
                  .pieces = pieces.first(used),
                  .segment_bytes = arrival.segment_bytes,
                  .total_bytes = static_cast<std::uint32_t>(arrival.bytes.size()),
                  .congestion_experienced = arrival.congestion_experienced,
                  .planned = planned > 0};
  }
  return count;
}

}  // namespace rdmc::fuzz
