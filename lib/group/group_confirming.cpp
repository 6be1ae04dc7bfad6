// Reports to the parent, verdicts to the children, and the closing barrier. By these, the members learn what
// all of them have.
#include <algorithm>

#include "lib/group/group.hpp"

namespace rdmc::group {

Result<void> Group::close() {
  if (phase_ != Phase::open) return rdmc::fail(Errc::peer_failed, "the group's epoch has ended");
  if (!config_.confirms) return rdmc::fail(Errc::invalid_argument, "a group that confirms nothing");
  if (closing_) return rdmc::fail(Errc::cancelled, "the group is being closed already");
  closing_ = true;
  return {};
}

Result<void> Group::on_report(Edge& edge, const Report& report) {
  const auto at = static_cast<std::size_t>(&edge - edges_.data());
  const auto child = std::ranges::find(tree_children_, at);
  if (child == tree_children_.end())
    return rdmc::fail(Errc::protocol_error, "a report from a member that is not below us");
  if (report.holder && value_of(report.holder->member) >= config_.members.size())
    return rdmc::fail(Errc::protocol_error, "a report of a member that is none");
  if (is_root() && (report.delivered > next_number_ || report.charge > small_window_.charge()))
    return rdmc::fail(Errc::protocol_error, "a report of messages that were never sent");
  if (auto taken = confirmation_.on_report(static_cast<std::size_t>(child - tree_children_.begin()), report);
      !taken)
    return taken;
  if (!is_root()) return {};
  confirm_own();
  const Report& all = confirmation_.gathered();
  small_window_.confirmed(all.delivered, confirmation_.finished_below(), all.charge);
  return {};
}

Result<void> Group::on_verdict(Edge& edge, const Verdict& verdict) {
  if (tree_parent_ != static_cast<std::size_t>(&edge - edges_.data()))
    return rdmc::fail(Errc::protocol_error, "a verdict from a member that is not above us");
  confirm_own();
  return confirmation_.on_verdict(verdict);
}

void Group::confirm_own() {
  if (is_root()) {
    const bool done = closing_ && next_to_finish_ == next_number_;
    confirmation_.set_own({.delivered = next_number_,
                           .finished = next_to_finish_,
                           .charge = small_window_.charge(),
                           .closing = done,
                           .waited = 0,
                           .holder = own_holder()});
  } else {
    confirmation_.set_own({.delivered = next_to_deliver_,
                           .finished = next_to_finish_,
                           .charge = charge_delivered_,
                           .closing = closing_,
                           .waited = waited_,
                           .holder = own_holder()});
  }
}

/// Finds the member that holds up the group. A neighbour that has not made the group has none of its
/// messages, so this neighbour holds up message 0. The root is never named as a holder.
std::optional<Holder> Group::own_holder() const {
  const auto late = std::ranges::find_if(
      edges_, [](const Edge& edge) { return !edge.is_made && value_of(edge.rank) != 0; });
  if (late != edges_.end()) return Holder{.member = late->rank, .message = 0};
  return is_root() ? std::nullopt : holder_;
}

void Group::tell_who_holds_up(const std::optional<Holder>& holder) {
  if (holder == holder_) return;
  holder_ = holder;
  observer_.held_up(holder_);
}

std::size_t Group::confirm(Time now) {
  if (!config_.confirms) return 0;
  confirm_own();
  std::size_t done = 0;
  if (const auto report = confirmation_.report();
      report && edges_[*tree_parent_].link->send(config_.name, *report)) {
    confirmation_.told(*report);
    ++done;
  }
  const Verdict verdict = confirmation_.verdict();
  bool all_told = true;
  for (std::size_t child = 0; child < tree_children_.size(); ++child) {
    const auto news = confirmation_.verdict_for(child);
    const bool told = !news || edges_[tree_children_[child]].link->send(config_.name, *news);
    if (news && told) confirmation_.told(child, *news);
    done += news && told ? 1 : 0;
    all_told = all_told && told;
  }
  if (is_root() && phase_ == Phase::open) {
    const Report& all = confirmation_.gathered();
    // All members have delivered that message, so this hold-up has ended.
    const bool is_over = all.holder && all.holder->message < all.delivered;
    tell_who_holds_up(is_over ? std::nullopt : all.holder);
  }
  if (verdict.stable != stable_) {
    stable_ = verdict.stable;
    learn(now);  // This comes first, because stable() may send.
    observer_.stable(stable_);
    ++done;
  }
  if (phase_ == Phase::open && verdict.closed && all_told) {
    // No member writes any more. Every granted block has arrived, or its grant is for a message that will
    // never be sent.
    closed_ = true;
    release();
    ++done;
  }
  return done;
}

}  // namespace rdmc::group
