// What a side of a transfer - the sender, a receiver - makes of what its data plane says: its participant of
// the session hears of it, or the side gives up. On the control loop's thread.
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

  /// To DataPlaneProxy::form().
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
  /// To DataPlaneProxy::connect().
  auto to_connect(Epoch epoch) const {
    return [answers = *this, epoch](Result<void> connected) {
      const auto self = answers.side.lock();
      if (!self) return;
      if (connected)
        ((*self).*answers.participant).connected(epoch, monotonic_now());
      else if (connected.error().code != Errc::peer_failed)  // that is a suspicion by now
        ((*self).*answers.give_up)(std::move(connected.error()));
      ((*self).*answers.pump)();
    };
  }
  /// DataPlane::Events::failed.
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
