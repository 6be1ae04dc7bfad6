// Decides which members must be removed from a view and which joiners may join it, as far as one process can
// know from its own testimony and that of the processes that it hears. A pure function: the same testimony
// gives the same judgement.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "controlplane/view/types.hpp"

namespace rdmc::view {

/// The processes that one process hears, according to its own status.
using Row = MemberSet;

/// All that one process knows.
struct Testimony {
  MemberId self{};
  Row hears;  ///< The processes that `self` hears.
  /// The rows of those that `self` hears and whose last status is about this view.
  std::map<MemberId, Row> rows;
  /// Members to remove on the word of one process. See FailureView::on_gone and FailureView::on_refused.
  MemberSet gone;
  /// Processes that are silent for suspiciously long. They have no say about the others.
  MemberSet doubtful;
  /// Processes that have only just been heard again, and `self` if it was not running. Complaints about them
  /// do not count, because they may be out of date.
  MemberSet returned;
};

struct Judgement {
  MemberSet removed;
  /// The position of `self` among the members that may propose the change. The oldest member that stays has
  /// position 0. nullopt if `self` does not stay. But the last member that leaves has position 0.
  std::optional<std::size_t> turn;
  /// True if fewer than half of the members that are not gone would stay. Then `self` is more likely to be
  /// the one that is cut off.
  bool minority = false;
};

/// A member is removed if it is gone, or if more than half of the voters have a bad link to it. The voters
/// are `self` and the members that it hears. A link is bad if either end does not hear the other. A voter
/// that has not reported on this view yet complains about no member. So the testimony of one observer removes
/// no member while there are other observers. A loss in one direction counts against the end that has such
/// losses with most of the others. A silent member has no say. This follows Rapid's cut detection (Suresh et
/// al., ATC 2018), with every member as an observer.
Judgement judge(const View& view, const Testimony& testimony);

/// True if most voters, that is `self` and the members that it hears, have a good link to the joiner. `row`
/// is the joiner's row.
bool may_join(const View& view, const Testimony& testimony, MemberId joiner, const Row& row);

}  // namespace rdmc::view
