// What peers have said in groups that are not made here yet, and which groups are over. Bounded: what is too
// much or waits too long is refused, and its senders told. Pure.
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
  Duration patience = seconds(30);  ///< for the group to be made
  std::size_t bytes = 1 << 20;      ///< over all groups, what keeping them takes included
};

class EarlyRecords {
 public:
  /// So many of the groups that are over are remembered, those that ended last.
  static constexpr std::size_t kMostOver = 4096;

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
  Time next_deadline() const;
  void forget(PeerId peer);

  void set_over(const GroupName& name);
  bool is_over(const GroupName& name) const { return over_.contains(name); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Waiting {
    GroupName name;
    Time deadline;
    std::deque<Kept> records;
  };
  Refused drop(std::vector<Waiting>::iterator waiting);

  EarlyLimits limits_;
  std::vector<Waiting> waiting_;
  std::size_t bytes_ = 0;
  std::unordered_set<GroupName, GroupNameHash> over_;
  std::deque<GroupName> over_order_;
};

}  // namespace rdmc::group
