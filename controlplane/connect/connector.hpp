// Opens a channel to a host: resolves its name, tries its addresses one after the other, and runs the
// handshake, all within one deadline. The caller owns the attempt; the loop does the work.
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

/// A connect under way. Destroying it ends the attempt, and then its handler is not called; any thread.
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

/// Connects to `host` (a name or a numeric address, IPv6 without brackets) within `deadline`; any thread.
/// `done` is called exactly once on the loop's thread (not at all when the loop had stopped before), and may
/// destroy the attempt; start() the channel there or later. Each of several addresses gets an equal share of
/// the time that is left. Errors name the host and, of several addresses, each with its cause:
///   authentication     the other side has another key, or one side alone runs with --insecure
///   version_mismatch, protocol_error
///   peer_failed        refused, unreachable, or gone during the handshake
///   not_found          no such name
///   timed_out, resource_limit, cancelled (the loop stopped)
Connecting connect(ControlLoop& loop, std::string host, std::uint16_t port, const ChannelOptions& options,
                   Duration deadline, ConnectHandler done);

}  // namespace rdmc::control
