// What peers have said in groups that are not made here yet, and which groups are over. What is kept is
// bounded: too much is refused, and its senders are told. Senders that have waited for a while are told that
// they wait. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "dataplane/base/types.hpp"
#include "lib/group/names.hpp"

namespace rdmc::group {

struct EarlyLimits {
  Duration patience{};  ///< how long a group may take to be made; 0: for ever
  /// Over all groups, what keeping them takes included. A root sends at most 1 MB of small messages to a
  /// member that delivers none (GroupConfig::small_window), and what else comes first is short.
  std::size_t bytes = 8 << 20;
};

class EarlyRecords {
 public:
  /// So many of the groups that are over are remembered, those that ended last.
  static constexpr std::size_t kMostOver = 4096;
  /// Peers that have waited so long for a group to be made are told.
  static constexpr Duration kToldAfter = seconds(1);

  explicit EarlyRecords(const EarlyLimits& limits) : limits_(limits) {}

  /// Every peer that has said something in the group, once.
  struct Refused {
    GroupName name;
    std::vector<PeerId> peers;
  };
  /// Keeps an encoded record. An answer: there was no room, and what was kept of this group is dropped; it is
  /// over.
  std::optional<Refused> keep(const GroupName& name, PeerId peer, std::span<const std::byte> record,
                              Time now);
  /// The group is made: the next record for it, in the order of arrival.
  struct Kept {
    PeerId peer;
    std::vector<std::byte> record;
  };
  std::optional<Kept> take(const GroupName& name);
  /// One group whose time has come; ask until nothing.
  std::optional<Refused> expire(Time now);
  /// A peer that waits for this group for kToldAfter or more, and of which set_told() has not been called.
  struct Waits {
    GroupName name;
    PeerId peer;
  };
  std::optional<Waits> next_to_tell(Time now);
  /// The peer that next_to_tell() has named knows that it waits.
  void set_told(const GroupName& name);
  Time next_deadline() const;
  void forget(PeerId peer);
  /// The peer has said the end of this group: what it said before has no effect any more.
  void forget(const GroupName& name, PeerId peer);
  /// The group is made in this epoch: nobody makes it in an earlier one any more.
  void forget_before(const GroupName& name);

  void set_over(const GroupName& name);
  bool is_over(const GroupName& name) const { return over_.contains(name); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Waiting {
    GroupName name;
    Time since;
    std::vector<PeerId> peers;  ///< each that has said something, …
    std::size_t told = 0;       ///< … and how many of these know that they wait
    std::deque<Kept> records;
  };
  /// What keeping a group takes, without its peers and records. Even an empty std::deque has a first block
  /// (libstdc++: 512 bytes, and a map of 64).
  static constexpr std::size_t kGroupBytes = sizeof(Waiting) + 576;

  void uncount(const Waiting& waiting);
  Refused drop(std::vector<Waiting>::iterator waiting);
  void forget_records(Waiting& waiting, PeerId peer);

  EarlyLimits limits_;
  std::vector<Waiting> waiting_;
  std::size_t bytes_ = 0;
  std::unordered_set<GroupName, GroupNameHash> over_;
  std::deque<GroupName> over_order_;
};

}  // namespace rdmc::group
