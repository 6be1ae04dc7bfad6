// The values of a failure view: the members of a group, with their addresses, their fabrics, and the epochs
// since which they are members. A view is agreed in a store before any process acts on it. Each epoch has one
// view. The types are plain values. Any thread may use them.
#pragma once

#include <algorithm>
#include <boost/container/flat_set.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "controlplane/peer/identity.hpp"
#include "dataplane/base/address.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::view {

using Bytes = std::vector<std::byte>;

/// Identifies one life of one process: a random number from the operating system, which is never used again.
/// If a program is started again at the same address, it is another member.
enum class MemberId : std::uint64_t {};
/// A flat set is used because several sets are made for every status that arrives.
using MemberSet = boost::container::flat_set<MemberId>;

inline constexpr std::size_t kMaxMembers = 256;
/// The length limit for the name of a group. The name of a store entry has at most 255 bytes, including the
/// suffix of a liveness query.
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
  std::string name;  ///< The name for people. It has no control characters.
  /// The address of the control listener. No two members of a view have the same address.
  Address address;
  std::vector<std::string> fabrics;  ///< "udp", "verbs", and so on; the best one is first.
  /// The network stack of `address`: the network namespace of a running kernel (fabric::host_identity). 0 if
  /// the network stack is not known.
  std::uint64_t host = 0;
  /// The epoch of the first view that contains this member. The proposer of that view sets this value.
  Epoch since{};
  Duration lease{};  ///< The term of the lease that the member asks for. 0 if it asks for none.
  /// The process as a whole (`thread` is 0). With it, a process on the same host that was never connected to
  /// the member can find out whether the member has exited. All fields are 0 if this is not known.
  peer::ProcessIdentity process{};

  friend bool operator==(const Member&, const Member&) = default;
};

/// True if `later` claims that it listens at the address of `former`, on the same network stack. A network
/// stack has only one listener at an address. So if the claim is true, one of the two processes has ended.
/// Another network stack may use the same address, because private addresses and loopback are used many
/// times. The claim proves nothing: two virtual machines from one snapshot may have the same `host`, and a
/// process may make a false claim.
inline bool claims_address_of(const Member& former, const Member& later) {
  return later.id != former.id && later.address == former.address && later.host != 0 &&
         later.host == former.host;
}

/// A lease that a process outside a view may still hold. `remaining` is its greatest remaining time when the
/// view is proposed.
struct Held {
  MemberId holder{};  ///< kAnybody stands for all members of earlier views.
  Duration remaining{};

  friend bool operator==(const Held&, const Held&) = default;
};
inline constexpr MemberId kAnybody{0};

/// The members of a group in one epoch. A view that has epoch 0 and no members stands for a group that does
/// not exist yet.
struct View {
  Epoch epoch{};
  std::vector<Member> members;  ///< The oldest member is first, so the rank of a member never rises.
  /// The leases that the proposer of the view knows and that processes outside the view may still hold.
  std::vector<Held> held{};

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
/// 500 parts per million.
inline constexpr std::uint32_t kClockDrift = 1000;
/// Returns a time that is a little longer than `duration`. When this longer time has passed on this process's
/// clock, `duration` has passed on the clock of every other process.
Duration stretched(Duration duration);

/// Returns the next view after `view`, without that member. It is made by a process outside the group. Such a
/// process does not know how long the removed member may still hold its lease, so the new view contains the
/// whole term, or for the last member Timing::store_fresh.
View without(const View& view, MemberId member);

/// All times and limits of a failure view. With the defaults, a process that was stopped for 300 ms stays a
/// member, and a host is removed within 700 ms of its last message
/// (docs/decisions/0060-suspicion-between-two-bounds.md).
struct Timing {
  Duration heartbeat = milliseconds(50);  ///< The longest time between two statuses to a member.
  /// A changed status is sent after this delay, so that one message reports several changes.
  Duration soon = milliseconds(2);
  /// The number of members that get a changed status before the other members. They are the members that
  /// would propose first.
  std::size_t front = 2;
  /// When a view newer than the current view is known to exist, it is read from the store after this delay.
  /// Normally its proposer sends it before that.
  Duration behind = milliseconds(10);
  double phi = 8;  ///< The level at which a silent member is suspected.
  /// This time is added to the mean gap between messages before the level of a silence is computed.
  Duration phi_pause = milliseconds(350);
  /// A member is never suspected after a silence shorter than this time.
  Duration suspect_floor = milliseconds(450);
  /// A member is always suspected after a silence of this time.
  Duration suspect_cap = milliseconds(600);
  /// If a member has been silent for this time, a change waits until the member is heard or suspected.
  Duration doubt = milliseconds(250);
  Duration batch = milliseconds(1);  ///< The time that a change waits for other changes.
  /// The time that a change waits after the last joiner, if the change removes no member.
  Duration batch_joins = milliseconds(8);
  /// The longest time that a change waits for joiners and for members with a suspicious silence.
  Duration batch_limit = milliseconds(60);
  /// The members propose the same change one after the other. This is the time between two of them.
  Duration stagger = milliseconds(30);
  /// The additional time that a process waits if it would keep fewer than half of the members. In this time
  /// the other members can notice that the store can be reached again, and can send it a proposal.
  Duration minority_wait = milliseconds(1500);
  /// A bad link between members that stay in the view is reported after this time.
  Duration unreachable_after = milliseconds(500);
  /// A data path that gave up counts as a bad link for this time.
  Duration path_failed_for = seconds(2);
  Duration store_timeout = seconds(1);  ///< The time limit for an answer of the store.
  /// The pause after a failure of the store. It is doubled up to store_timeout.
  Duration store_backoff = milliseconds(100);
  /// The time between two readings of the store if there are no watch notifications.
  Duration reread = seconds(2);
  Duration often = milliseconds(200);  ///< The time between two readings for a joiner, and for a minority.
  /// If a joiner has heard no member for this time, it may replace the group.
  Duration takeover = seconds(5);
  /// If a joiner has heard no member for this time, it writes a liveness query to the store.
  Duration claim_after = milliseconds(1500);
  /// A joiner may replace the group only if its liveness query has had no answer for this time. The time is
  /// longer than `reread`, because members check for queries once in every `reread`.
  Duration claim_stands = milliseconds(3400);
  /// The shortest time between two questions about the process that listens at the address of a member.
  Duration ask_listener_again = seconds(2);
  /// The greatest time between two turns that counts as local time. It is also the greatest time between two
  /// proofs of listening that counts as listening time.
  Duration max_step = milliseconds(100);
  /// After a process was not running, or after it was heard again, silence and complaints do not count for
  /// this time. After this time, the statuses of the others contain that they hear the process again.
  Duration recovery = milliseconds(300);
  /// A process holds its lease for at most this time after it has asked the store, if the store showed no
  /// later view.
  Duration store_fresh = milliseconds(2500);
  /// The time between two such requests to the store by a process that asks for a lease.
  Duration lease_reread = milliseconds(500);
};

}  // namespace rdmc::view
