// Encodes and decodes the values of a failure view. Decoding checks every limit, so no peer and no store can
// make a process store more than a group of kMaxMembers needs. The functions have no state. Any thread may
// call them.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <variant>

#include "controlplane/view/types.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::view {

/// Grants a lease. `holder` has requested the lease with its status of the number `sequence`.
struct Granted {
  MemberId holder{};
  std::uint64_t sequence = 0;

  friend bool operator==(const Granted&, const Granted&) = default;
};

/// The report of a process about itself and the others. See Status in view.proto.
struct Status {
  MemberId from{};
  std::uint64_t sequence = 0;
  Epoch epoch{};
  MemberSet hears, gone;
  std::optional<Member> joining;
  bool asks = false;
  std::vector<Granted> granted;
  MemberSet exited;

  friend bool operator==(const Status&, const Status&) = default;
};

using Message = std::variant<Status, View>;

/// The longest message that is decoded. The messages of a group of kMaxMembers are not longer, even with the
/// longest names and texts.
inline constexpr std::size_t kMaxMessageBytes = 1 << 20;

Bytes encode(const Message& message);
/// Decodes a message. Errors: protocol_error.
Result<Message> decode(std::span<const std::byte> bytes);

/// Checks that a view can contain this member. Errors: invalid_argument if a text is too long or has control
/// characters, if there are too many fabrics, or if a lease is shorter than kMinLease or longer than
/// kMaxLease.
Result<void> check(const Member& member);

/// Checks that a group can have this name: 1 to kMaxGroupBytes bytes, no control characters, and not the name
/// of a liveness query. Errors: invalid_argument.
Result<void> check_group(const std::string& name);

/// Encode and decode a view in the form in which stores keep it. Errors: protocol_error if the bytes are
/// malformed, or if two members have the same id or address.
Bytes encode_view(const View& view);
Result<View> decode_view(std::span<const std::byte> bytes);

}  // namespace rdmc::view
