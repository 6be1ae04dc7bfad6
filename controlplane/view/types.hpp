// The values of a failure view: the members of a group, with their addresses, their fabrics, and the epochs
// since which they are members. A view is agreed in a store before any process acts on it. There is one view
// of each epoch. Plain values; any thread.
#pragma once

#include <algorithm>
#include <boost/container/flat_set.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/base/address.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::view {

using Bytes = std::vector<std::byte>;

/// Identifies one life of one process: a random number from the operating system, which is never used again.
/// A program that is started again at the same address is another member.
enum class MemberId : std::uint64_t {};
/// A flat set, because several are made for every status that arrives.
using MemberSet = boost::container::flat_set<MemberId>;

inline constexpr std::size_t kMaxMembers = 256;
/// The name of a store entry has at most 255 bytes, with the suffix of a liveness query.
inline constexpr std::size_t kMaxGroupBytes = 249;
inline constexpr std::size_t kMaxNameBytes = 255;
inline constexpr std::size_t kMaxFabrics = 16;
inline constexpr std::size_t kMaxFabricBytes = 31;
/// The shortest term of a lease. A status is sent in each quarter of the term.
inline constexpr Duration kMinLease = milliseconds(20);
inline constexpr Duration kMaxLease = seconds(1);  ///< The longest term of a lease.
inline constexpr Duration kMaxHeld = seconds(10);  ///< The longest Held::remaining.

struct Member {
  MemberId id{};
  std::string name;  ///< For people. It has no control characters.
  /// The address of the control listener. No two members of a view have the same address.
  Address address;
  std::vector<std::string> fabrics;  ///< "udp", "verbs", and so on; the best one is first.
  /// The network stack of `address`: the network namespace of a running kernel (fabric::host_identity). 0 if
  /// it is not known.
  std::uint64_t host = 0;
  /// The epoch of the first view that has this member. The proposer of that view sets it.
  Epoch since{};
  Duration lease{};  ///< The term of the lease that it asks for. 0 if it asks for none.

  friend bool operator==(const Member&, const Member&) = default;
};

/// True if `later` says that it listens where `former` does, on the same network stack. A network stack has
/// only one listener at an address, so one of the two processes must have ended. Another network stack may
/// use the same address, because private addresses and loopback are used many times. The claim proves
/// nothing: two virtual machines from one snapshot may have the same `host`, and a process may lie.
inline bool claims_address_of(const Member& former, const Member& later) {
  return later.id != former.id && later.address == former.address && later.host != 0 &&
         later.host == former.host;
}

/// A lease that a process outside a view may still hold for the time `remaining` when the view is proposed.
struct Held {
  MemberId holder{};  ///< kAnybody stands for all members of earlier views.
  Duration remaining{};

  friend bool operator==(const Held&, const Held&) = default;
};
inline constexpr MemberId kAnybody{0};

/// The members of a group in one epoch. A view with epoch 0 and without members stands for a group that does
/// not exist yet.
struct View {
  Epoch epoch{};
  std::vector<Member> members;  ///< The oldest is first. So the rank of a member never rises.
  std::vector<Held> held{};     ///< The leases that its proposer knows.

  const Member* find(MemberId id) const {
    const auto found = std::ranges::find(members, id, &Member::id);
    return found == members.end() ? nullptr : &*found;
  }
  bool contains(MemberId id) const { return find(id) != nullptr; }
  friend bool operator==(const View&, const View&) = default;
};

inline constexpr Epoch next(Epoch epoch) {
  return Epoch{value_of(epoch) + 1};
}

/// The greatest error of a clock's rate, in parts per million. Linux changes the rate of a clock by at most
/// 500.
inline constexpr std::uint32_t kClockDrift = 1000;
/// Returns how long a process must wait on its own clock until `duration` has passed on the clock of every
/// other process.
Duration stretched(Duration duration);

/// Returns the view after `view` without that member, as a process outside the group makes it. Such a process
/// does not know how long the removed member may still hold its lease, so the new view names the whole term.
View without(const View& view, MemberId member);

/// All times and limits of a failure view. With the defaults, a process that was stopped for 300 ms stays a
/// member, and a host is removed within 700 ms of its last message
/// (docs/decisions/0060-suspicion-between-two-bounds.md).
struct Timing {
  Duration heartbeat = milliseconds(50);  ///< A status goes to every member at least this often.
  /// A changed status is sent after this delay, so that one message reports several changes.
  Duration soon = milliseconds(2);
  /// The number of members that get a changed status before the others: those that would propose first.
  std::size_t front = 2;
  /// A newer view than the current one is read from the store after this delay. Normally its proposer sends
  /// it before that.
  Duration behind = milliseconds(10);
  double phi = 8;  ///< The level at which a silent member is suspected.
  /// Added to the mean gap between messages before the level of a silence is computed.
  Duration phi_pause = milliseconds(350);
  /// A member is never suspected after a shorter silence.
  Duration suspect_floor = milliseconds(450);
  /// A member is always suspected after this silence.
  Duration suspect_cap = milliseconds(600);
  /// After this silence of a member a change waits until the member is heard or suspected.
  Duration doubt = milliseconds(250);
  Duration batch = milliseconds(1);  ///< A change waits this long for other changes.
  /// A change that removes no member waits this long after the last joiner.
  Duration batch_joins = milliseconds(8);
  /// The longest wait for joiners and for members with a suspicious silence.
  Duration batch_limit = milliseconds(60);
  Duration stagger = milliseconds(30);  ///< The time between the turns of members to propose the same change.
  /// The additional wait of a process that would keep fewer than half of the members. In this time the other
  /// members can learn that the store is back, and ask it.
  Duration minority_wait = milliseconds(1500);
  /// A bad link between members that stay is reported after this time.
  Duration unreachable_after = milliseconds(500);
  /// For this time a data path that gave up counts as a bad link.
  Duration path_failed_for = seconds(2);
  Duration store_timeout = seconds(1);  ///< The time limit for an answer of the store.
  /// The pause after a failure of the store. It is doubled up to store_timeout.
  Duration store_backoff = milliseconds(100);
  /// The time between two readings of the store without hints.
  Duration reread = seconds(2);
  Duration often = milliseconds(200);  ///< The same for a joiner, and for a minority.
  /// A joiner that has heard no member for this time may replace the group.
  Duration takeover = seconds(5);
  /// A joiner that has heard no member for this time writes a liveness query to the store.
  Duration claim_after = milliseconds(1500);
  /// The liveness query must have no answer for this time. It is longer than `reread`, because members look
  /// for queries that often.
  Duration claim_stands = milliseconds(3400);
  /// The shortest time between two questions about who listens at the address of a member.
  Duration ask_listener_again = seconds(2);
  /// The greatest time that counts between two turns, and between two proofs that this process listens.
  Duration max_step = milliseconds(100);
  /// For this time after a process was not running, or after it was heard again, silence and complaints do
  /// not count. Then the statuses of the others include its return.
  Duration recovery = milliseconds(300);
  /// A lease is held for at most this time after the holder has asked the store, if the store then showed no
  /// later view.
  Duration store_fresh = milliseconds(2500);
  /// The time between two such readings of the store by a process that asks for a lease.
  Duration lease_reread = milliseconds(500);
};

}  // namespace rdmc::view
