// Keeps the records that peers have sent in groups that this process has not made yet, and remembers which
// groups are over. The memory is limited: if a record exceeds the limit, all records of its group are
// dropped, and their senders are informed. A sender that has waited for kToldAfter is informed that it waits.
// A core without I/O.
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
  Duration patience{};  ///< The time within which a group must be made. Zero means no limit.
  /// The limit for all groups together, including the overhead of keeping their records. A root sends at most
  /// 1 MB of small messages to a member that delivers none (GroupConfig::small_window), and all other early
  /// records are short.
  std::size_t bytes = 8 << 20;
};

class EarlyRecords {
 public:
  /// The number of ended groups that are remembered. The groups that ended first are forgotten.
  static constexpr std::size_t kMostOver = 4096;
  /// A peer is informed when it has waited for this time for a group to be made.
  static constexpr Duration kToldAfter = seconds(1);

  explicit EarlyRecords(const EarlyLimits& limits) : limits_(limits) {}

  /// A group that is refused, and the peers that have sent a record in it. Each of these peers is in the list
  /// once.
  struct Refused {
    GroupName name;
    std::vector<PeerId> peers;
  };
  /// Keeps an encoded record. If the memory limit is exceeded, drops all records of this group, marks the
  /// group as over, and returns the group and its peers.
  std::optional<Refused> keep(const GroupName& name, PeerId peer, std::span<const std::byte> record,
                              Time now);
  /// A kept record in its encoded form.
  struct Kept {
    PeerId peer;
    std::vector<std::byte> record;
  };
  /// Removes and returns the next record of a group that is now made, in the order of arrival. Returns
  /// nullopt if there is none.
  std::optional<Kept> take(const GroupName& name);
  /// Drops and returns one group that was not made in time. To be called until it returns nullopt.
  std::optional<Refused> expire(Time now);
  /// A peer that has waited for this group for kToldAfter or longer and has not been informed of this yet.
  struct Waits {
    GroupName name;
    PeerId peer;
  };
  std::optional<Waits> next_to_tell(Time now);
  /// Records that the peer which next_to_tell() has returned for this group was informed.
  void set_told(const GroupName& name);
  Time next_deadline() const;
  void forget(PeerId peer);
  /// Drops the records of this peer in this group. Called when the peer has sent its End record, which makes
  /// the earlier records void.
  void forget(const GroupName& name, PeerId peer);
  /// Drops the records of all earlier epochs of this group. Called when the group is made in this epoch,
  /// because no earlier epoch is made any more.
  void forget_before(const GroupName& name);

  void set_over(const GroupName& name);
  bool is_over(const GroupName& name) const { return over_.contains(name); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Waiting {
    GroupName name;
    Time since;
    std::vector<PeerId> peers;  ///< All peers that have sent a record.
    std::size_t told = 0;       ///< The first `told` entries of `peers` were informed that they wait.
    std::deque<Kept> records;
  };
  /// The overhead of one group, without its peers and records. Even an empty std::deque allocates a first
  /// block (in libstdc++ 512 bytes, and a map of 64 bytes).
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
