// A receiver that becomes the coordinator after the sender's death. It has the session's Coordinator, with a
// channel to each other survivor. The participant of the same process is connected through the loop's queue.
// This object has no blocks: plan_recovery() decides which survivor sends which blocks. Everything happens on
// the control loop's thread. This object ends once, when every survivor has its result. If it is destroyed
// earlier, the survivors become orphans again, and the next survivor becomes the coordinator.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "apps/bcast-cli/file_shape.hpp"
#include "apps/bcast-cli/transfer_messages.hpp"
#include "controlplane/connect/channel.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "controlplane/peer/peers.hpp"
#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/participant.hpp"

namespace rdmc::bcast {

struct NewCoordinatorConfig {
  session::LeadRequested request;
  std::shared_ptr<peer::Peers> peers;  ///< gives access to the other survivors
  FileShape shape;
  TransferWishes wishes;  ///< the same settings as the sender's
};

class NewCoordinator : public std::enable_shared_from_this<NewCoordinator> {
 public:
  /// The functions that connect this object with the participant of this process. They are called from the
  /// loop, and never from within a call of this object.
  struct Handlers {
    std::function<void(const session::Bytes&)> to_own;
    std::function<void()> close_own;
    std::function<void()> finished;
  };

  /// Starts the coordinator. Precondition: the participant of this process was informed that it is connected.
  static std::shared_ptr<NewCoordinator> start(control::ControlLoop& loop, NewCoordinatorConfig config,
                                               Handlers handlers);

  void from_own(session::Bytes message);
  void own_closed();

  bool finished() const { return told_; }
  bool stands_down_for(session::MemberId other) const { return coordinator_.stands_down_for(other); }

 private:
  struct Peer {
    std::string address;
    peer::Peers::Handle opening;
    std::optional<control::Channel> channel;
    bool open = false;  ///< true from when the channel is opened until its end is reported
    bool closing = false;
    /// The number of the current connection attempt. Messages of channels of earlier attempts are ignored.
    std::uint64_t attempt = 0;
  };

  NewCoordinator(control::ControlLoop& loop, NewCoordinatorConfig config, Handlers handlers);
  void connect(session::MemberId member);
  void on_connected(session::MemberId member, std::uint64_t attempt, Result<control::Channel> channel);
  void on_closed(session::MemberId member, std::uint64_t attempt, const Error& cause);
  void pump();
  void arm_timer();
  void handle(session::Send& send);
  void handle(const session::CloseChannel& close);
  void handle(const session::ConnectRequested& request);
  void handle(const session::ParametersNeeded& needed);
  void handle(const session::JobFinished&);
  /// Ignores results and progress, because no user reads them here.
  template <typename Other>
  void handle(const Other&) {}
  void finish_if_done();
  void post_own(std::function<void(NewCoordinator&)> task);

  control::ControlLoop& loop_;
  NewCoordinatorConfig config_;
  Handlers handlers_;
  session::MemberId self_;
  session::Coordinator coordinator_;
  std::map<session::MemberId, Peer> peers_;
  control::Timer timer_;
  bool pumping_ = false, job_finished_ = false, told_ = false;
};

}  // namespace rdmc::bcast
