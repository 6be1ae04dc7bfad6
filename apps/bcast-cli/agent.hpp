// A receiving host: listens for senders that hold the key and keeps one Reception for each. Idle it costs a
// listening socket and a sleeping thread. Made and destroyed by any thread but the control loop's; everything
// in between happens on the loop's.
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

/// Files received at the same time; each takes a ring of up to 32 MB. More are refused, and told why.
constexpr std::size_t kMaxReceptions = 64;
/// Channels beside these of which it is not known yet whether they bring a file, or a survivor of one that is
/// being received.
constexpr std::size_t kMaxNewcomers = 64;
/// Those that are being told at the same time; more are just cut off.
constexpr long kMaxTurnedAway = 64;
/// The operator hears of refused senders at most this often: their number is not ours to choose.
constexpr Duration kRefusalInterval = seconds(10);

class Agent {
 public:
  using OutcomeHandler = std::function<void(const Reception::Outcome&)>;

  /// A sender that was not served, why, and how many others have not been since the last call.
  using RefusedHandler = std::function<void(const Address& peer, const Error& cause, std::uint64_t others)>;

  /// `outcome` is called on the loop's thread for each job that was offered, `refused` for senders that never
  /// came to offer one, at most once in kRefusalInterval. Errors: of Peers::listen.
  static Result<std::unique_ptr<Agent>> start(control::ControlLoop& loop, ReceiveDirectory directory,
                                              const Address& listen, control::Security security,
                                              OutcomeHandler outcome, RefusedHandler refused = {},
                                              std::size_t max_receptions = kMaxReceptions,
                                              FabricChoice fabric = {});
  /// stop()
  ~Agent();

  /// Where it listens, with the port that it got.
  const Address& address() const { return listener_->address(); }
  /// Takes no more senders, gives up on what is being received, and waits until its traces are gone, at most
  /// `patience`.
  void stop(Duration patience = seconds(6));
  /// Whether a file is being received.
  bool is_busy();
  /// Waits until nothing is being received, at most `patience`. Other survivors find us meanwhile.
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
  Throttle refusals_{kRefusalInterval};                                // loop's thread
  std::shared_ptr<void> turned_away_ = std::make_shared<std::byte>();  // loop's thread; a copy for each
  peer::Peers::Handle service_;
  std::optional<control::Listener> listener_;
  std::map<std::uint64_t, std::shared_ptr<Reception>> receptions_;  // loop's thread
  std::uint64_t next_number_ = 0;                                   // loop's thread
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t active_ = 0;  // receptions_.size(), under mutex_
};

}  // namespace rdmc::bcast
