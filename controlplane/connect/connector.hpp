// Opens a channel to a host: resolves the host's name, tries its addresses one after the other, and runs the
// handshake, all within one deadline. The caller owns the attempt. The work is done on the control loop's
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "controlplane/connect/channel.hpp"
#include "controlplane/connect/channel_options.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::control {

/// An attempt to connect. Destroying the object ends the attempt, and the handler of the attempt is not
/// called after that. The object may be destroyed on any thread.
class [[nodiscard]] Connecting {
 public:
  Connecting() = default;
  Connecting(Connecting&&) noexcept = default;
  Connecting& operator=(Connecting&& other) noexcept;
  ~Connecting();

 private:
  class Attempt;
  explicit Connecting(std::shared_ptr<Attempt> attempt) : attempt_(std::move(attempt)) {}
  void cancel();
  friend Connecting connect(ControlLoop&, std::string, std::uint16_t, const ChannelOptions&, Duration,
                            std::move_only_function<void(Result<Channel>)>);
  std::shared_ptr<Attempt> attempt_;
};

using ConnectHandler = std::move_only_function<void(Result<Channel>)>;

/// Connects to `host` (a name or a numeric address, IPv6 without brackets) within `deadline`. May be called
/// from any thread. `done` is called exactly once, on the loop's thread. It is not called if the loop has
/// already stopped. `done` may destroy the attempt. start() may be called on the channel in `done` or later.
/// If the host has several addresses, each address gets an equal share of the remaining time. The text of an
/// error names the host. If there are several addresses, it also contains the cause for each address. The
/// codes are:
///   authentication     the other side has another key, or only one side runs with --insecure
///   version_mismatch, protocol_error
///   peer_failed        the peer refused, was unreachable, or ended during the handshake
///   not_found          the name does not exist
///   timed_out, resource_limit, cancelled (the loop stopped)
Connecting connect(ControlLoop& loop, std::string host, std::uint16_t port, const ChannelOptions& options,
                   Duration deadline, ConnectHandler done);

}  // namespace rdmc::control
