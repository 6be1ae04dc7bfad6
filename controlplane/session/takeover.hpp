// What a driver must know of a channel's first message before it hands it to a participant: whether a
// survivor that leads on has come for an orphan of this process, and for which. Pure functions.
#pragma once

#include <optional>
#include <span>

#include "controlplane/session/types.hpp"

namespace rdmc::session {

struct Takeover {
  SessionId session{};
  MemberId leader{};
};
/// Nothing for any other message than the Hello of a survivor that leads on.
std::optional<Takeover> takeover_of(std::span<const std::byte> message);

/// The only answer to a takeover by a process whose participant has a coordinator: it will be asked again,
/// and if that does not change, whoever asks is out.
Bytes takeover_refusal();

}  // namespace rdmc::session
