// Reliable byte streams between simulated processes, in place of the TLS connections of the control plane.
// Bytes arrive in order, in pieces that may differ from the pieces that were sent. When a process is killed,
// its streams end, because a real kernel would end them, too. A partition delays bytes until the partition
// ends, and loses none. The Channels object owns the ends that it made. Only one thread may use it.
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
  Duration extra{};  ///< added to the network's delay
  /// A random time up to this value is also added; the pieces stay in order.
  Duration jitter = microseconds(10);
  std::uint32_t split = 60'000;  ///< this number of 1,000,000 sends arrives in two pieces
};

class Channels;

class ChannelEnd {
 public:
  /// Sends any number of bytes and accepts them at once. The function has no effect after close(), or after
  /// the peer's end of stream has arrived.
  void send(std::span<const std::byte> bytes);
  /// Appends the bytes that have arrived to `out`, and returns their number.
  std::size_t receive(std::vector<std::byte>& out);
  /// True if the peer has closed its end or was killed, and all bytes that it sent before have arrived.
  bool ended() const { return ended_; }
  /// Closes this end. The peer receives the end of the stream after the bytes that were sent before.
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
  std::deque<Piece> under_way_;  ///< the pieces in flight to this end
  std::vector<std::byte> arrived_;
  Time last_arrival_{};
  bool closed_ = false, ended_ = false;
};

class Channels : private EventTarget {
 public:
  /// The time after which bytes that a partition holds back are sent again. It is the least retransmission
  /// timeout of TCP on Linux.
  static constexpr Duration kRetry = milliseconds(200);

  explicit Channels(Network& network, const ChannelOptions& options = {});

  /// Makes a new stream and returns both ends. If one of the two processes was killed, its end is closed at
  /// once, and the other end receives the end of the stream.
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
