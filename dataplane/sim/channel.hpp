// Reliable byte streams between simulated processes: what TLS over TCP is to the control plane. Bytes arrive
// in order, in pieces that need not be those they were sent in. A killed process's streams end, as its kernel
// would end them; a partition only holds bytes back until it heals. Ends belong to the Channels that made
// them. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "dataplane/sim/network.hpp"

namespace rdmc::sim {

struct ChannelOptions {
  Duration extra{};                    ///< added to the network's delay
  Duration jitter = microseconds(10);  ///< uniform up to this, order kept
  std::uint32_t split = 60'000;        ///< parts per million of sends that arrive in two pieces
};

class Channels;

class ChannelEnd {
 public:
  /// Any amount; taken at once. Nothing after close() or once the peer's end of stream has arrived.
  void send(std::span<const std::byte> bytes);
  /// Appends what has arrived to `out`; returns how much that was.
  std::size_t receive(std::vector<std::byte>& out);
  /// The peer has closed or died, and all it had sent has arrived.
  bool ended() const { return ended_; }
  /// The peer sees the end of the stream after what was sent before.
  void close();

  ProcessId owner() const { return owner_; }
  ProcessId peer() const { return peer_->owner_; }

 private:
  friend class Channels;
  struct Piece {
    Time at;
    std::vector<std::byte> bytes;
    bool end = false;
  };

  void transmit(std::span<const std::byte> bytes, bool end);

  Channels* channels_ = nullptr;
  ChannelEnd* peer_ = nullptr;
  std::uint32_t index_ = 0;
  ProcessId owner_{};
  std::deque<Piece> under_way_;  ///< towards this end
  std::vector<std::byte> arrived_;
  Time last_arrival_{};
  bool closed_ = false, ended_ = false;
};

class Channels : private EventTarget {
 public:
  /// How soon bytes that met a partition are tried again (TCP's least retransmission timeout on Linux).
  static constexpr Duration kRetry = milliseconds(200);

  explicit Channels(Network& network, const ChannelOptions& options = {});

  /// Both ends of a new stream. A dead process's end is closed: the other sees the stream end.
  std::pair<ChannelEnd*, ChannelEnd*> connect(ProcessId a, ProcessId b);

 private:
  friend class ChannelEnd;
  ChannelEnd& add(ProcessId owner);
  void on_event(std::uint64_t argument) override;
  void process_killed(ProcessId id);

  Network& network_;
  Simulation& simulation_;
  ChannelOptions options_;
  Random random_;
  std::deque<ChannelEnd> ends_;
};

}  // namespace rdmc::sim
