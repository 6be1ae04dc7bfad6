// A receiver that leads on after the sender's death: the session's Coordinator over a channel to each other
// survivor, and over the loop's queue to the participant of its own process. It holds no byte itself; which
// survivor sends what is plan_recovery()'s matter. Everything happens on the control loop's thread. It ends
// once, when every survivor has its outcome; destroyed before, it leaves them orphans, and the next one
// leads.
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
  std::shared_ptr<peer::Peers> peers;  ///< among them, the other survivors
  FileShape shape;
  TransferWishes wishes;  ///< the sender's
};

class NewCoordinator : public std::enable_shared_from_this<NewCoordinator> {
 public:
  /// Of our own participant; called from the loop, never from within a call of this object.
  struct Handlers {
    std::function<void(const session::Bytes&)> to_own;
    std::function<void()> close_own;
    std::function<void()> finished;
  };

  /// Our own participant has been told that it is connected.
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
    bool open = false;  ///< its channel's end has not been heard of
    bool closing = false;
    std::uint64_t attempt = 0;  ///< what an earlier channel says is void
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
  /// Of the outcomes and of what is on the way nobody is told.
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
