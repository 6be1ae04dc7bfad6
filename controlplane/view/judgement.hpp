// Decides which members must be removed from a view, and which joiners may join it. One process decides this
// from its own testimony and from the testimony of the processes that it hears. The functions are pure: the
// same testimony gives the same judgement.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "controlplane/view/types.hpp"

namespace rdmc::view {

/// The set of processes that one process hears, according to its own status.
using Row = MemberSet;

/// Everything that one process knows about the others.
struct Testimony {
  MemberId self{};
  Row hears;  ///< The processes that `self` hears.
  /// The rows of the processes that `self` hears. A row is included only if the process's last status is
  /// about this view.
  std::map<MemberId, Row> rows;
  /// Members that are removed because of the statement of one process. See FailureView::on_gone and
  /// FailureView::on_refused.
  MemberSet gone;
  /// Processes that are silent for suspiciously long. Their opinions about other members do not count.
  MemberSet doubtful;
  /// Processes that were heard again only a short time ago, after a silence. `self` is included if it was not
  /// running. Complaints about these processes do not count, because the complaints may be out of date.
  MemberSet returned;
};

struct Judgement {
  MemberSet removed;
  /// The position of `self` among the members that may propose the change. The oldest member that stays has
  /// position 0. The value is nullopt if `self` does not stay, with one exception: if no member stays and
  /// `self` leaves, its position is 0.
  std::optional<std::size_t> turn;
  /// True if fewer than half of the members that are not gone would stay. Then it is more likely that `self`
  /// is cut off than that the others are.
  bool minority = false;
};

/// Decides which members are removed. A member is removed if it is gone, or if more than half of the voters
/// have a bad link to it. The voters are `self` and the members that it hears, except the doubtful ones. A
/// link is bad if one of its ends does not hear the other end. A voter that has not reported on this view yet
/// complains about no member. So the testimony of one observer removes no member while there are other
/// observers. If messages are lost in one direction only, this counts against the member that has such losses
/// with most of the others. This follows Rapid's cut detection (Suresh et al., ATC 2018), with every member
/// as an observer.
Judgement judge(const View& view, const Testimony& testimony);

/// True if most voters have a good link to the joiner. The voters are `self` and the members that it hears.
/// `row` is the joiner's row.
bool may_join(const View& view, const Testimony& testimony, MemberId joiner, const Row& row);

}  // namespace rdmc::view
