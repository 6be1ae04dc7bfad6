// Checks that a driver makes on the first message of a channel, before it gives the message to a participant.
// They find out whether the message begins a failover for an orphan of this process, and for which session.
// Pure functions.
#pragma once

#include <optional>
#include <span>

#include "controlplane/session/types.hpp"

namespace rdmc::session {

struct Takeover {
  SessionId session{};
  MemberId leader{};
};
/// Returns the session and the leader if the message is the Hello of a survivor that has become the
/// coordinator. Otherwise returns nullopt.
std::optional<Takeover> takeover_of(std::span<const std::byte> message);

/// Returns the message by which a process must refuse a failover if its participant has a coordinator. The
/// new coordinator then asks again. If it gets the same answer until its time limit, the old coordinator had
/// left out the new coordinator.
Bytes takeover_refusal();

}  // namespace rdmc::session
