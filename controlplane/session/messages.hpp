// Between the wire's messages (protobuf, generated from session.proto) and the session's values: parsing with
// bounds, error codes by number, and texts of peers made fit to print. Private to this folder. Stateless.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Generated code does not hold our warning level.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "controlplane/session/session.pb.h"
#pragma GCC diagnostic pop

#include "controlplane/session/types.hpp"
#include "dataplane/relay/wait.hpp"

namespace rdmc::session {

/// Errors: protocol_error (too long, not an Envelope, or of a kind we don't know).
Result<wire::Envelope> parse_envelope(std::span<const std::byte> bytes);
Bytes serialize(const wire::Envelope& envelope);
/// What the oneof holds, for causes: "Blobs".
std::string_view name(const wire::Envelope& envelope);

Bytes to_bytes(std::string_view text);
std::string_view to_view(std::span<const std::byte> bytes);
/// Cut to kMaxTextBytes; control characters become '?'.
std::string printable(std::string_view text);

void store(wire::Cause& to, const Error& from);
Error load(const wire::Cause& from);
void store(wire::Member& to, const MemberInfo& from);
MemberInfo load(const wire::Member& from);
/// Of an epoch's member; nothing: it waits no more.
void store(wire::Wait& to, const std::optional<relay::Wait>& from);
std::optional<relay::Wait> load(const wire::Wait& from);
void store(wire::FailedMember& to, const FailedMember& from);
std::vector<FailedMember> load_failed(const wire::End& end);

/// "0.6 s", "300 ms".
std::string to_text(Duration duration);

}  // namespace rdmc::session
