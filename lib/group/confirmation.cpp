#include "lib/group/confirmation.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace rdmc::group {
namespace {

Report least(const Report& a, const Report& b) {
  return {.delivered = std::min(a.delivered, b.delivered),
          .finished = std::min(a.finished, b.finished),
          .charge = std::min(a.charge, b.charge),
          .closing = a.closing && b.closing,
          .waited = std::max(a.waited, b.waited),
          .holder = !b.holder || (a.holder && a.holder->message <= b.holder->message) ? a.holder : b.holder};
}

bool takes_back(const Report& last, const Report& now) {
  return now.delivered < last.delivered || now.finished < last.finished || now.charge < last.charge ||
         now.closing < last.closing || now.waited < last.waited;
}

}  // namespace

Tree Tree::of(Rank rank, std::uint32_t members) {
  const std::uint32_t r = value_of(rank);
  assert(r < members);
  Tree tree;
  if (members <= kStarMembers) {
    if (r != 0) tree.parent = Rank{0};
    for (std::uint32_t child = 1; r == 0 && child < members; ++child) tree.children.push_back(Rank{child});
    return tree;
  }
  if (r != 0) tree.parent = Rank{r & (r - 1)};
  // A child differs from r in one bit below `end`.
  const std::uint32_t end = r == 0 ? std::bit_ceil(members) : r & -r;
  for (std::uint32_t bit = end / 2; bit != 0; bit /= 2) {
    if (r + bit < members) tree.children.push_back(Rank{r + bit});
  }
  return tree;
}

Result<void> Confirmation::on_report(std::size_t child, const Report& report) {
  Report& last = children_[child].report;
  if (takes_back(last, report) || report.finished > report.delivered || report.waited > report.delivered)
    return fail(Errc::protocol_error, "a report that takes something back");
  last = report;
  gather();
  return {};
}

Result<void> Confirmation::on_verdict(const Verdict& verdict) {
  const bool shrinks = verdict.stable < heard_.stable || (heard_.closed && !verdict.closed);
  if (is_root_ || shrinks || verdict.stable > own_.delivered || (verdict.closed && !own_.closing))
    return fail(Errc::protocol_error, "a verdict that cannot be");
  heard_ = verdict;
  return {};
}

void Confirmation::gather() {
  gathered_ = own_;
  for (const Child& child : children_) gathered_ = least(gathered_, child.report);
  // A report's `waited` must not exceed `delivered`. This limit loses no information about stable messages.
  gathered_.waited = std::min(gathered_.waited, gathered_.delivered);
}

std::uint64_t Confirmation::finished_below() const {
  std::uint64_t least_of_all = UINT64_MAX;
  for (const Child& child : children_) least_of_all = std::min(least_of_all, child.report.finished);
  return least_of_all;
}

std::optional<Report> Confirmation::report() const {
  return is_root_ || gathered_ == reported_ ? std::nullopt : std::optional(gathered_);
}

Verdict Confirmation::verdict() const {
  if (!is_root_) return heard_;
  return {.stable = gathered_.delivered, .closed = gathered_.closing && gathered_.finished == own_.delivered};
}

std::optional<Verdict> Confirmation::verdict_for(std::size_t child) const {
  const Verdict now = verdict();
  return now == children_[child].told ? std::nullopt : std::optional(now);
}

}  // namespace rdmc::group
