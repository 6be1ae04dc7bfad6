// Who is to be removed from a view, and who may join it, as far as one process can tell from what it and
// those that it hears say about each other. A pure function: the same words give the same judgement.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "controlplane/view/types.hpp"

namespace rdmc::view {

/// Whom a process hears, by its own word.
using Row = MemberSet;

/// What one process knows.
struct Testimony {
  MemberId self{};
  Row hears;                     ///< whom self hears
  std::map<MemberId, Row> rows;  ///< of those that self hears and whose word is about this view
  MemberSet gone;                ///< to be removed on one word: see FailureView::on_gone and on_refused
  MemberSet doubtful;  ///< of `hears`, but silent for suspiciously long: without a say about the others
  /// Only just heard again, or self when it was not running: that others do not hear them may be over.
  MemberSet returned;
};

struct Judgement {
  MemberSet removed;
  /// The place of self among those who may propose the change: the oldest member that stays comes first.
  /// Nothing, when self is not to stay.
  std::optional<std::size_t> turn;
  /// Fewer than half of the members that are not gone would stay: more likely it is self that is cut off.
  bool minority = false;
};

/// A member is removed when it is gone, or when most of those that `self` hears (and self) have a bad link to
/// it. A link is bad when either end does not hear the other; of one that is heard and has not yet said
/// anything of this view, it is good. So one observer's word removes nobody while there are others, a
/// one-way loss counts against who has it with most, and who is silent has no say. After Rapid's cut
/// detection (Suresh et al., ATC 2018), with everybody as observer.
Judgement judge(const View& view, const Testimony& testimony);

/// Whether most of `self` and those it hears have a good link to the joiner, whose row is `row`.
bool may_join(const View& view, const Testimony& testimony, MemberId joiner, const Row& row);

}  // namespace rdmc::view
