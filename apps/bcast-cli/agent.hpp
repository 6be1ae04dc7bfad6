// A receiving host: listens for senders that hold the key and keeps one Reception for each. Idle it costs a
// listening socket and a sleeping thread. Made and destroyed by any thread but the control loop's; everything
// in between happens on the loop's.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "apps/bcast-cli/reception.hpp"
#include "controlplane/connect/channel_options.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "controlplane/connect/listener.hpp"
#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

/// Files received at the same time; each takes a ring of up to 32 MB. More are told to come again.
constexpr std::size_t kMaxReceptions = 64;

class Agent {
 public:
  using OutcomeHandler = std::function<void(const Reception::Outcome&)>;

  /// `outcome` is called on the loop's thread for each job that was offered. Errors: of Listener::listen,
  /// naming the address.
  static Result<std::unique_ptr<Agent>> start(control::ControlLoop& loop, Root root, const Address& listen,
                                              control::Security security, OutcomeHandler outcome);
  /// stop()
  ~Agent();

  /// Where it listens, with the port that it got.
  const Address& address() const { return listener_->address(); }
  /// Takes no more senders, gives up on what is being received, and waits until its traces are gone, at most
  /// `patience`.
  void stop(Duration patience = seconds(6));

 private:
  Agent(control::ControlLoop& loop, Root root, OutcomeHandler outcome)
      : loop_(loop), root_(std::move(root)), outcome_(std::move(outcome)) {}
  void on_channel(control::Channel channel);
  void on_finished(const Reception::Outcome& outcome, std::uint64_t number);

  control::ControlLoop& loop_;
  Root root_;
  OutcomeHandler outcome_;
  std::optional<control::Listener> listener_;
  std::map<std::uint64_t, std::shared_ptr<Reception>> receptions_;  // loop's thread
  std::uint64_t next_number_ = 0;                                   // loop's thread
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t active_ = 0;  // receptions_.size(), under mutex_
};

}  // namespace rdmc::bcast
