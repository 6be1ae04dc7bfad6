// Conversions between the protocol's messages (protobuf, generated from session.proto) and the values of the
// session. Parsing checks limits, maps numbers to error codes, and makes texts of peers fit to print. Private
// to this folder. The functions have no state.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The generated code causes warnings at this project's warning level, so they are turned off for it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "controlplane/session/session.pb.h"
#pragma GCC diagnostic pop

#include "controlplane/session/types.hpp"
#include "dataplane/relay/wait.hpp"

namespace rdmc::session {

/// Parses a message. Errors: protocol_error if the message is too long, is no Envelope, or is of an unknown
/// kind.
Result<wire::Envelope> parse_envelope(std::span<const std::byte> bytes);
Bytes serialize(const wire::Envelope& envelope);
/// Returns the name of the kind of message, for error texts. For example: "Blobs".
std::string_view name(const wire::Envelope& envelope);

Bytes to_bytes(std::string_view text);
std::string_view to_view(std::span<const std::byte> bytes);
/// Returns the text, cut to kMaxTextBytes, with '?' in place of control characters.
std::string printable(std::string_view text);

void store(wire::Cause& to, const Error& from);
Error load(const wire::Cause& from);
void store(wire::Member& to, const MemberInfo& from);
MemberInfo load(const wire::Member& from);
/// In these two functions, nullopt means that the member does not wait any more.
void store(wire::Wait& to, const std::optional<relay::Wait>& from);
std::optional<relay::Wait> load(const wire::Wait& from);
void store(wire::FailedMember& to, const FailedMember& from);
std::vector<FailedMember> load_failed(const wire::End& end);

/// Returns the duration as text, for example "1 s" or "300 ms".
std::string to_text(Duration duration);

}  // namespace rdmc::session
