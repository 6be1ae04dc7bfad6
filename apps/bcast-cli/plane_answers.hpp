// The handlers for the answers and events of a data plane. A side is the sender or a receiver. The handlers
// pass the answers and events to the side's participant of the session. If an answer is an error of this
// process, the side gives up. The handlers run on the control loop's thread.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "controlplane/session/participant.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

template <typename Side>
struct PlaneAnswers {
  std::weak_ptr<Side> side;
  session::Participant Side::*participant;
  void (Side::*give_up)(Error);
  void (Side::*pump)();

  /// Returns the handler for DataPlaneProxy::form().
  auto to_form(Epoch epoch) const {
    return [answers = *this, epoch](Result<std::vector<session::PeerBlob>> blobs) {
      const auto self = answers.side.lock();
      if (!self) return;
      if (blobs)
        ((*self).*answers.participant).blobs_made(epoch, *blobs, monotonic_now());
      else
        ((*self).*answers.give_up)(std::move(blobs.error()));
      ((*self).*answers.pump)();
    };
  }
  /// Returns the handler for DataPlaneProxy::connect().
  auto to_connect(Epoch epoch) const {
    return [answers = *this, epoch](Result<void> connected) {
      const auto self = answers.side.lock();
      if (!self) return;
      if (connected)
        ((*self).*answers.participant).connected(epoch, monotonic_now());
      else if (connected.error().code != Errc::peer_failed)  // failed() has already reported this error
        ((*self).*answers.give_up)(std::move(connected.error()));
      ((*self).*answers.pump)();
    };
  }
  /// Returns the handler for DataPlane::Events::failed.
  auto failed() const {
    return [answers = *this](Epoch epoch, std::optional<Rank> peer, const Error& error) {
      const auto self = answers.side.lock();
      if (!self) return;
      if (peer)
        ((*self).*answers.participant).suspect(epoch, *peer, error.what, monotonic_now());
      else
        ((*self).*answers.give_up)(error);
      ((*self).*answers.pump)();
    };
  }
};

}  // namespace rdmc::bcast
