// The values that a failure view is made of: who is in a group, since which epoch, where, and by which
// fabrics. A view is agreed in a store before anybody acts on it, and there is one of each epoch. Plain
// values, owned by whoever holds them; any thread.
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

/// One life of one process: random, from the operating system, never reused. A program that is started again
/// at the same address is another member.
enum class MemberId : std::uint64_t {};
/// Flat: some are made of every word that is heard.
using MemberSet = boost::container::flat_set<MemberId>;

inline constexpr std::size_t kMaxMembers = 256;
inline constexpr std::size_t kMaxGroupBytes = 249;  ///< a store's name has 255, with a claim's suffix
inline constexpr std::size_t kMaxNameBytes = 255;
inline constexpr std::size_t kMaxFabrics = 16;
inline constexpr std::size_t kMaxFabricBytes = 31;
inline constexpr Duration kMinLease = milliseconds(20);  ///< the shortest term of a lease: a status leaves
                                                         ///< in each quarter of it
inline constexpr Duration kMaxLease = seconds(1);        ///< the longest
inline constexpr Duration kMaxHeld = seconds(10);        ///< the longest that one may still be held

struct Member {
  MemberId id{};
  std::string name;                  ///< for people; no control characters
  Address address;                   ///< of its control listener; no two members of a view have the same
  std::vector<std::string> fabrics;  ///< "udp", "verbs", …, best first
  std::uint64_t host = 0;            ///< the network stack that `address` is of: a running kernel's network
                                     ///< namespace (fabric::host_identity); 0: not known
  Epoch since{};                     ///< the first view that it is in; the view's proposer fills it in
  Duration lease{};                  ///< the term of the lease that it asks for; 0: it asks for none

  friend bool operator==(const Member&, const Member&) = default;
};

/// Whether `later` says that it listens where `former` does: one network stack has one listener at an
/// address, so one of the two is not there any more. Another stack may use the same address: private
/// addresses and loopback are in use many times. It is a claim and proves nothing: two virtual machines from
/// one snapshot may have the same `host`, and a process may lie.
inline bool claims_address_of(const Member& former, const Member& later) {
  return later.id != former.id && later.address == former.address && later.host != 0 &&
         later.host == former.host;
}

/// A lease that a process outside a view may still hold when the view is proposed, and for how long.
struct Held {
  MemberId holder{};  ///< kAnybody: whoever was in an earlier view
  Duration remaining{};

  friend bool operator==(const Held&, const Held&) = default;
};
inline constexpr MemberId kAnybody{0};

/// Epoch 0, without members, stands for a group that nobody has formed yet.
struct View {
  Epoch epoch{};
  std::vector<Member> members;  ///< oldest first: a member's rank only falls
  std::vector<Held> held{};     ///< as far as its proposer knows

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

/// How much the rate of a clock may differ from the true one, in parts per million. Linux changes a clock's
/// rate by at most 500.
inline constexpr std::uint32_t kClockDrift = 1000;
/// How long a process waits on its own clock until `duration` has passed on every other process's clock.
Duration stretched(Duration duration);

/// The view after `view` without that member, as a process outside the group makes it. How long the removed
/// member may still hold its lease is not known, so the whole term is to be waited for.
View without(const View& view, MemberId member);

/// Every wait of a failure view. The defaults keep a process that was stopped for 300 ms and remove a host
/// within 700 ms of its last word (docs/decisions/0060-suspicion-between-two-bounds.md).
struct Timing {
  Duration heartbeat = milliseconds(50);       ///< a status goes to every member at least this often
  Duration soon = milliseconds(2);             ///< what has changed is said so soon, once for all of it, …
  std::size_t front = 2;                       ///< to so many who would propose a change of it
  Duration behind = milliseconds(10);          ///< a newer view than ours is read after so long, if nobody
                                               ///< brings it: who proposed it tells everybody
  double phi = 8;                              ///< the level at which a silent member is suspected …
  Duration phi_pause = milliseconds(350);      ///< … by a distribution of gaps moved by this pause
  Duration suspect_floor = milliseconds(450);  ///< but never sooner after its last word,
  Duration suspect_cap = milliseconds(600);    ///< and never later
  Duration doubt = milliseconds(250);          ///< silence that makes a change wait for a verdict
  Duration batch = milliseconds(1);            ///< a change waits for others to come along,
  Duration batch_joins = milliseconds(8);      ///< if nobody is to be removed, so long after the last came,
  Duration batch_limit = milliseconds(60);     ///< and for them and for doubtful members at most this long
  Duration stagger = milliseconds(30);         ///< between the turns of members to propose the same change
  Duration minority_wait =
      milliseconds(1500);  ///< more, for those who see less than half of the others: time
                           ///< for them to be told that the store is back, and to ask it
  Duration unreachable_after = milliseconds(500);  ///< a bad link between members that stay is reported
  Duration path_failed_for = seconds(2);           ///< a data path that gave up counts against both its ends
  Duration store_timeout = seconds(1);             ///< for an answer of the store
  Duration store_backoff = milliseconds(100);      ///< after a failure, doubled up to store_timeout
  Duration reread = seconds(2);                    ///< between readings of the store, hints or not
  Duration often = milliseconds(200);              ///< the same for a joiner, and for a minority
  Duration takeover = seconds(5);  ///< a joiner that hears no member for so long replaces them,
  Duration claim_after =
      milliseconds(1500);  ///< having asked in the store, after so long, whether any lives,
  Duration claim_stands = milliseconds(3400);  ///< if none has answered for so long; longer than reread
  Duration ask_listener_again = seconds(2);    ///< who listens at an address is asked at most so often
  Duration max_step = milliseconds(100);       ///< what may count of the time between two turns,
                                               ///< and between two proofs that we listen
  Duration recovery = milliseconds(300);       ///< who was not running, or has just been heard again, is
                                               ///< given so long until the others' words know it
  Duration store_fresh = milliseconds(2500);   ///< a lease is held at most so long after the holder asked
                                               ///< the store and was shown no later view
  Duration lease_reread = milliseconds(500);   ///< so often a holder of a lease asks
};

}  // namespace rdmc::view
