// Helpers for tests of a coordinator without real members. The test writes the messages of the members.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/messages.hpp"

namespace rdmc::session::test {

/// Returns the members with the ids `first` to `last`.
inline std::vector<ParticipantSpec> members_named(std::uint32_t first, std::uint32_t last) {
  std::vector<ParticipantSpec> all;
  for (std::uint32_t id = first; id <= last; ++id)
    all.push_back({.member = MemberId{id}, .name = "h" + std::to_string(id), .address = {}, .job = {}});
  return all;
}

/// Gives the coordinator a message from the member `id`. `fill` writes the message into an empty envelope.
template <typename Fill>
void say(Coordinator& coordinator, std::uint32_t id, Time now, Fill fill) {
  wire::Envelope envelope;
  fill(envelope);
  coordinator.on_message(MemberId{id}, serialize(envelope), now);
}

}  // namespace rdmc::session::test
