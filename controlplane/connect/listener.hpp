// Accepts channels at an address. Unauthenticated clients are limited. Each client has a deadline and a few
// KB of memory, and if there are too many clients, the oldest one is dropped. So silent connections cannot
// keep out a process that has the key. The work is done on the control loop's thread. The owner may destroy
// the listener on any thread. Channels that were accepted before stay open.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "controlplane/connect/channel.hpp"
#include "controlplane/connect/channel_options.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "dataplane/base/address.hpp"
#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::control {

struct ListenOptions {
  ChannelOptions channel;
  /// The largest number of connections whose handshake is not finished. One more connection drops the oldest
  /// connection. The value 0 means 1.
  std::size_t max_unauthenticated = 256;
};

struct ListenHandlers {
  /// Called with the channel of a peer that has passed the handshake. To accept the peer, the owner calls
  /// start() in this handler or later. To refuse the peer, the owner destroys the channel.
  std::move_only_function<void(Channel)> on_channel;
  /// Called when a peer is refused, with the cause: authentication, version_mismatch, protocol_error,
  /// timed_out, peer_failed, or resource_limit if the peer was dropped for a newer connection. Any process on
  /// the network can cause many calls. The owner should therefore count the calls and not print a message for
  /// each of them. May be empty.
  std::move_only_function<void(const Address& peer, const Error& cause)> on_refused;
};

class Listener {
 public:
  struct Counters {
    std::uint64_t accepted = 0;  ///< The number of channels that were handed to on_channel.
    std::uint64_t refused = 0;   ///< The number of peers that were refused.
    /// The number of times that accepting failed for lack of descriptors or memory. The listener tries again.
    std::uint64_t accept_failures = 0;
  };

  /// Listens at `address`. Port 0 chooses any free port. May be called from any thread. Errors:
  /// already_exists if the port is in use, not_found if this host does not have the address,
  /// permission_denied, resource_limit, cancelled if the loop has stopped.
  static Result<Listener> listen(ControlLoop& loop, const Address& address, const ListenOptions& options,
                                 ListenHandlers handlers);
  /// Makes a listener of `listening`, which must be a non-blocking socket that already listens. Errors:
  /// cancelled if the loop has stopped.
  static Result<Listener> adopt(ControlLoop& loop, Descriptor listening, const ListenOptions& options,
                                ListenHandlers handlers);
  Listener(Listener&&) noexcept = default;
  Listener& operator=(Listener&& other) noexcept;
  ~Listener();

  /// The address at which the listener listens, with the actual port number.
  const Address& address() const;
  /// Returns the counters. May be called from any thread. Waits until the control loop's thread has copied
  /// the counters.
  Counters counters() const;

 private:
  class Impl;
  explicit Listener(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  void close();
  std::shared_ptr<Impl> impl_;
};

}  // namespace rdmc::control
