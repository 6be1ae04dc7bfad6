// Accepts channels on an address. Strangers are bounded: each has a deadline and a few KB, and when too many
// are under way the oldest is dropped, so that connections that say nothing cannot keep out one that holds
// the key. The loop does the work; the owner may destroy the listener on any thread, channels already
// accepted live on.
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
  /// Connections whose handshake is not finished; one more drops the oldest. At least 1.
  std::size_t max_unauthenticated = 256;
};

struct ListenHandlers {
  /// A peer that has proved the key. start() the channel here or later; dropping it refuses the peer.
  std::move_only_function<void(Channel)> on_channel;
  /// A peer that was refused, and why: authentication, version_mismatch, protocol_error, timed_out,
  /// peer_failed, resource_limit (dropped for a newer one). The network decides how often this is called:
  /// count, don't print each. May be empty.
  std::move_only_function<void(const Address& peer, const Error& cause)> on_refused;
};

class Listener {
 public:
  struct Counters {
    std::uint64_t accepted = 0;  ///< channels handed to on_channel
    std::uint64_t refused = 0;   ///< calls of on_refused
    std::uint64_t accept_failures =
        0;  ///< accept() failed for want of descriptors or memory; tried again later
  };

  /// Port 0 takes any free one. Any thread. Errors: already_exists (the port is in use), not_found (not an
  /// address of this host), permission_denied, resource_limit, cancelled (the loop has stopped).
  static Result<Listener> listen(ControlLoop& loop, const Address& address, const ListenOptions& options,
                                 ListenHandlers handlers);
  /// On a socket that listens already and does not block. Errors: cancelled.
  static Result<Listener> adopt(ControlLoop& loop, Descriptor listening, const ListenOptions& options,
                                ListenHandlers handlers);
  Listener(Listener&&) noexcept = default;
  Listener& operator=(Listener&& other) noexcept;
  ~Listener();

  /// Where it listens, with the port that it got.
  const Address& address() const;
  /// Any thread; waits for the loop's.
  Counters counters() const;

 private:
  class Impl;
  explicit Listener(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  void close();
  std::shared_ptr<Impl> impl_;
};

}  // namespace rdmc::control
