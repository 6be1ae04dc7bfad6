// The program on a receiving host. It listens for senders that have the key, and keeps one Reception for each
// of them. An idle agent costs a listening socket and a sleeping thread. It must be made, stopped and
// destroyed by a thread other than the control loop's. Its handlers run on the loop's thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "apps/bcast-cli/reception.hpp"
#include "apps/bcast-cli/throttle.hpp"
#include "controlplane/connect/channel_options.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "controlplane/connect/listener.hpp"
#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

/// The largest number of files that are received at the same time. Each file needs a ring buffer of up to 32
/// MB. Further senders are refused, and the reason is sent to them.
constexpr std::size_t kMaxReceptions = 64;
/// The largest number of additional channels on which no message has arrived yet. Such a channel may be for a
/// new file, or it may be from a survivor of a file that is being received.
constexpr std::size_t kMaxNewcomers = 64;
/// The largest number of refused senders to which the reason is being sent at the same time. Further refused
/// senders are disconnected without a reason.
constexpr long kMaxTurnedAway = 64;
/// Refused senders are reported to the operator at most once in this interval, because this process cannot
/// control how many there are.
constexpr Duration kRefusalInterval = seconds(10);

class Agent {
 public:
  using OutcomeHandler = std::function<void(const Reception::Outcome&)>;

  /// Called with the address of a sender that was refused, the cause, and the number of refused senders that
  /// were not reported since the last call.
  using RefusedHandler = std::function<void(const Address& peer, const Error& cause, std::uint64_t others)>;

  /// `outcome` is called on the loop's thread when a reception that had a job ends. `refused` is called for
  /// senders that are refused before they offer a job, at most once in kRefusalInterval. Errors: those of
  /// Peers::create, serve and listen.
  static Result<std::unique_ptr<Agent>> start(control::ControlLoop& loop, ReceiveDirectory directory,
                                              const Address& listen, control::Security security,
                                              OutcomeHandler outcome, RefusedHandler refused = {},
                                              std::size_t max_receptions = kMaxReceptions,
                                              FabricChoice fabric = {});
  /// Calls stop().
  ~Agent();

  /// Returns the address at which the agent listens, with the actual port number.
  const Address& address() const { return listener_->address(); }
  /// Accepts no more senders, stops all receptions, and waits until they have cleaned up, at most for
  /// `patience`.
  void stop(Duration patience = seconds(6));
  /// True if a file is being received.
  bool is_busy();
  /// Waits until no file is being received, at most for `patience`. Meanwhile survivors of a transfer can
  /// still connect to this agent.
  void finish(Duration patience);

 private:
  Agent(control::ControlLoop& loop, ReceiveDirectory directory, std::shared_ptr<peer::Peers> peers,
        OutcomeHandler outcome, RefusedHandler refused, std::size_t max_receptions, FabricChoice fabric);
  void on_channel(control::Channel channel);
  Result<void> admit(const Address& peer);
  void refuse(control::Channel channel, Error cause);
  void on_refused(const Address& peer, const Error& cause);
  void on_finished(const Reception::Outcome& outcome, const Address& peer, std::uint64_t number);

  control::ControlLoop& loop_;
  Reception::Services services_;
  OutcomeHandler outcome_;
  RefusedHandler refused_;
  std::size_t max_receptions_;
  Throttle refusals_{kRefusalInterval};  // used on the loop's thread
  // Each sender to which the reason is being sent has a copy of this pointer. Used on the loop's thread.
  std::shared_ptr<void> turned_away_ = std::make_shared<std::byte>();
  peer::Peers::Handle service_;
  std::optional<control::Listener> listener_;
  std::map<std::uint64_t, std::shared_ptr<Reception>> receptions_;  // used on the loop's thread
  std::uint64_t next_number_ = 0;                                   // used on the loop's thread
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t active_ = 0;  // the value of receptions_.size(); protected by mutex_
};

}  // namespace rdmc::bcast
