// Checks that a driver makes on the first message of a channel before it gives the message to a participant.
// They tell whether the message begins a failover of an orphan of this process, and in which session. Pure
// functions.
#pragma once

#include <optional>
#include <span>

#include "controlplane/session/types.hpp"

namespace rdmc::session {

struct Takeover {
  SessionId session{};
  MemberId leader{};
};
/// Returns nullopt unless the message is the Hello of a survivor that has become the coordinator.
std::optional<Takeover> takeover_of(std::span<const std::byte> message);

/// Returns the message with which a process must answer a failover if its participant has a coordinator. The
/// new coordinator then asks again. If the answer stays the same, the new coordinator is the one that was
/// left out.
Bytes takeover_refusal();

}  // namespace rdmc::session
