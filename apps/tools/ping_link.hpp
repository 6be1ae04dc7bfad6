// A connection as rping uses one: made by the connection manager, one message under way in each direction,
// each step waited for. Owns its queue pair; refers to the host and the connection manager, which outlive it.
// The caller's thread.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "apps/tools/connection_manager.hpp"
#include "apps/tools/ping_protocol.hpp"

namespace rdmc::tools {

/// Bytes that the peer may reach.
struct PingMemory {
  std::vector<std::byte> bytes;
  std::unique_ptr<fabric::MemoryRegion> region;  ///< none if `access` is none
  static Result<PingMemory> make(ForeignHost& host, std::uint32_t size_bytes, RemoteAccess access);
  PingBuffer buffer() const {
    return {region->remote_address(), region->remote_key(), static_cast<std::uint32_t>(bytes.size())};
  }
};

class PingLink {
 public:
  /// Errors: peer_failed (refused: says why; unreachable), timed_out, those of creating a queue pair.
  static Result<PingLink> connect(ForeignHost& host, ConnectionManager& connections, const Address& server,
                                  std::uint32_t path_mtu, Duration patience);
  /// The first client that comes to a port that is listened on and can be connected with; whoever cannot is
  /// refused, and told why; whoever asks and falls silent makes room for the next after 2.5 s. `others`: what
  /// becomes of who asks while that one is served. Errors: timed_out (nobody came; says who was refused last,
  /// and why).
  enum class Others : std::uint8_t {
    refuse,
    wait  ///< for the next accept, as long as the connection manager keeps a request
  };
  static Result<PingLink> accept(ForeignHost& host, ConnectionManager& connections, Others others,
                                 Duration patience);

  ForeignHost& host() { return *host_; }
  const Address& peer() const { return peer_; }
  std::uint32_t path_mtu() const { return path_mtu_; }

  // All of these block until the step is done. Errors: peer_failed (the queue pair failed or the peer
  // disconnected), timed_out, protocol_error.
  Result<void> tell(const PingBuffer& buffer);
  Result<PingBuffer> receive_buffer();
  Result<void> read(std::span<std::byte> into, const PingBuffer& from);
  Result<void> write(std::span<const std::byte> bytes, const PingBuffer& to);

  /// False if the peer disconnected instead of sending another.
  Result<bool> wait_for_message();
  /// Until the peer disconnects, for so long.
  Result<void> wait_for_end(Duration patience);
  /// Disconnects and waits until the peer knows.
  Result<void> end();
  /// Disconnects and does not wait: after an error, so that the peer learns of it.
  void abandon();

 private:
  /// What the queue pair refers to while the link may move.
  struct Messages {
    std::array<std::byte, kPingBufferBytes> incoming, outgoing;
  };

  PingLink(ForeignHost& host, ConnectionManager& connections, Duration patience)
      : host_(&host),
        connections_(&connections),
        patience_(patience),
        messages_(std::make_unique<Messages>()) {}

  Result<cm::Event> wait_for_event();
  Result<void> meet(const cm::Event& request);
  Result<void> wait_for_confirmation();
  Result<void> prepare(std::uint32_t path_mtu);
  Result<void> join(const cm::Event& event);
  cm::QueuePairParameters parameters() const;
  Result<void> poll();
  template <typename Condition>
  Result<void> wait_until(Condition condition, Duration patience);
  template <typename Condition>
  Result<void> wait_until(Condition condition) {
    return wait_until(condition, patience_);
  }

  ForeignHost* host_;
  ConnectionManager* connections_;
  Duration patience_;
  std::unique_ptr<Messages> messages_;
  ForeignHost::End end_;
  cm::CommunicationId connection_{};
  Address peer_;
  std::uint32_t path_mtu_ = 0;
  std::uint32_t done_ = 0;            ///< of our own works
  std::uint32_t received_ = 0;        ///< messages
  std::uint32_t received_bytes_ = 0;  ///< of the latest
  std::uint32_t taken_ = 0;           ///< messages
  bool established_ = false, disconnected_ = false;
  Others others_ = Others::wait;
};

}  // namespace rdmc::tools
