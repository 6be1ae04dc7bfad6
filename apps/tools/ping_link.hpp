// A connection like a connection of rping. The connection manager makes it, at most one message is in flight
// in each direction, and each step ends before the next step begins. It owns its queue pair. The host and the
// connection manager must outlive it. It must be used on the caller's thread.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "apps/tools/connection_manager.hpp"
#include "apps/tools/ping_protocol.hpp"

namespace rdmc::tools {

/// Memory that the peer may access.
struct PingMemory {
  std::vector<std::byte> bytes;
  std::unique_ptr<fabric::MemoryRegion> region;  ///< Null if `access` is none.
  static Result<PingMemory> make(ForeignHost& host, std::uint32_t size_bytes, RemoteAccess access);
  PingBuffer buffer() const {
    return {region->remote_address(), region->remote_key(), static_cast<std::uint32_t>(bytes.size())};
  }
};

class PingLink {
 public:
  /// Connects as the client. Errors: peer_failed if the peer refused (with its reason) or cannot be reached,
  /// timed_out, and those of creating a queue pair.
  static Result<PingLink> connect(ForeignHost& host, ConnectionManager& connections, const Address& server,
                                  std::uint32_t path_mtu, Duration patience);
  /// accept() accepts the first client that can be connected on the listening port. A client that cannot be
  /// connected is refused with a reason. A client that requests a connection and then stays silent is given
  /// up after 2.5 s if another client waits. `others` decides about requests that arrive while the client is
  /// served. Errors: timed_out if no client was connected. The error's message names the client that was
  /// refused last, and the reason.
  enum class Others : std::uint8_t {
    refuse,
    wait  ///< The request waits for the next accept(), as long as the connection manager keeps the request.
  };
  static Result<PingLink> accept(ForeignHost& host, ConnectionManager& connections, Others others,
                                 Duration patience);

  ForeignHost& host() { return *host_; }
  const Address& peer() const { return peer_; }
  std::uint32_t path_mtu() const { return path_mtu_; }

  // The following functions block until the step is done. Errors: peer_failed if the queue pair failed or the
  // peer disconnected, timed_out, protocol_error.
  Result<void> tell(const PingBuffer& buffer);
  Result<PingBuffer> receive_buffer();
  Result<void> read(std::span<std::byte> into, const PingBuffer& from);
  Result<void> write(std::span<const std::byte> bytes, const PingBuffer& to);

  /// Returns false if the peer disconnected instead of sending another message.
  Result<bool> wait_for_message();
  /// Waits until the peer disconnects, but at most for `patience`.
  Result<void> wait_for_end(Duration patience);
  /// Disconnects, and waits until the peer has confirmed this.
  Result<void> end();
  /// Disconnects without waiting. Used after an error, so that the peer learns of the error.
  void abandon();

 private:
  /// The message buffers of the queue pair. They must keep their addresses when the link is moved.
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
  std::uint32_t done_ = 0;            ///< The number of this side's completed work requests.
  std::uint32_t received_ = 0;        ///< The number of received messages.
  std::uint32_t received_bytes_ = 0;  ///< The length of the latest message.
  std::uint32_t taken_ = 0;           ///< The number of received messages that were taken.
  bool established_ = false, disconnected_ = false;
  Others others_ = Others::wait;
};

}  // namespace rdmc::tools
