#include "controlplane/session/takeover.hpp"

#include <algorithm>

#include "controlplane/session/messages.hpp"

namespace rdmc::session {

std::optional<Takeover> takeover_of(std::span<const std::byte> message) {
  const auto envelope = parse_envelope(message);
  if (!envelope || !envelope->has_hello() || envelope->hello().leader() == 0) return std::nullopt;
  Takeover takeover{{}, MemberId{envelope->hello().leader()}};
  if (envelope->hello().session().size() != takeover.session.size()) return std::nullopt;
  std::ranges::copy(to_bytes(envelope->hello().session()), takeover.session.begin());
  return takeover;
}

Bytes takeover_refusal() {
  wire::Envelope envelope;
  store(*envelope.mutable_failed()->mutable_cause(), {Errc::would_block, "its coordinator is alive"});
  return serialize(envelope);
}

}  // namespace rdmc::session
