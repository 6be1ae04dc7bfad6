// Between bytes and the values of a failure view, with every bound checked: no peer and no store can make a
// process hold more than a group of kMaxMembers has. Stateless; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <variant>

#include "controlplane/view/types.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::view {

/// That a lease is granted, as asked for with that status.
struct Granted {
  MemberId holder{};
  std::uint64_t sequence = 0;

  friend bool operator==(const Granted&, const Granted&) = default;
};

/// What a process says of itself and the others; see Status in view.proto.
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

/// The longest that is understood: what kMaxMembers need, with the longest names of everything.
inline constexpr std::size_t kMaxMessageBytes = 1 << 20;

Bytes encode(const Message& message);
/// Errors: protocol_error.
Result<Message> decode(std::span<const std::byte> bytes);

/// Whether it can be in a view. Errors: invalid_argument (texts too long or with control characters, too many
/// fabrics, a lease shorter than kMinLease or longer than kMaxLease).
Result<void> check(const Member& member);

/// Whether a group can have that name: 1 to kMaxGroupBytes bytes, no control characters, not that of a claim.
/// Errors: invalid_argument.
Result<void> check_group(const std::string& name);

/// As stores keep it. Errors: protocol_error (malformed, or no view: two members of one id or address).
Bytes encode_view(const View& view);
Result<View> decode_view(std::span<const std::byte> bytes);

}  // namespace rdmc::view
