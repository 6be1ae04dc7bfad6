// Combines the members' reports up a tree, and passes the root's verdict down the same tree. The verdict says
// which messages are stable, which means that every member has them. It also says whether the group is
// closed, which means that no member has anything left to do. This file also defines the tree itself. A core
// without I/O; one thread uses it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::group {

/// The neighbours with which a member exchanges reports and verdicts. The tree does not depend on the block
/// schedule. A group of at most kStarMembers members is a star around the root. A larger group is a binomial
/// tree: the parent of rank r is r without its lowest set bit.
struct Tree {
  static constexpr std::uint32_t kStarMembers = 8;

  /// Returns the neighbours of the member with this rank. Precondition: rank < members.
  static Tree of(Rank rank, std::uint32_t members);
  std::optional<Rank> parent;  ///< Empty at the root.
  /// In a star, the children are sorted by ascending rank. In a binomial tree, they are sorted by descending
  /// rank.
  std::vector<Rank> children;
};

/// A member that holds up the group: for a second or longer its application has given no memory for
/// `message`, or has not made the group.
struct Holder {
  Rank member{};
  std::uint64_t message = 0;
  friend bool operator==(const Holder&, const Holder&) = default;
};

/// The combined state of a member and all members below it in the tree. Each number is the lowest one among
/// these members, except `waited`, which is the highest one. Every field except `holder` only grows.
struct Report {
  std::uint64_t delivered = 0;  ///< Messages below this number are delivered.
  std::uint64_t finished = 0;   ///< Messages below this number are delivered, passed on and acknowledged.
  std::uint64_t charge = 0;     ///< The sum of small_charge() of the delivered small messages.
  bool closing = false;         ///< True if all these members have called close().
  /// One more than the number of the last delivered message that waited for memory. 0 if there is none.
  std::uint64_t waited = 0;
  /// The member that holds up the group; if there are several, the one with the lowest message.
  std::optional<Holder> holder{};
  friend bool operator==(const Report&, const Report&) = default;
};

/// The root's conclusion from the reports.
struct Verdict {
  std::uint64_t stable = 0;  ///< Every member has the messages below this number.
  bool closed = false;       ///< No member has anything left to do in this group, now or later.
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

class Confirmation {
 public:
  Confirmation(bool is_root, std::size_t children) : is_root_(is_root), children_(children) {}

  /// Sets the state of this member alone. At the root, `delivered` is the number of messages that it has
  /// sent.
  void set_own(const Report& own) {
    if (own == own_) return;
    own_ = own;
    gather();
  }
  /// Handles a report from child number `child`. Errors: protocol_error if a field other than `holder` has
  /// shrunk, or if `finished` or `waited` is greater than `delivered`.
  Result<void> on_report(std::size_t child, const Report& report);
  /// Handles a verdict from the parent. Errors: protocol_error if this member is the root, if a field has
  /// shrunk, if `stable` is greater than what this member has delivered, or if `closed` is set although this
  /// member has not called close().
  Result<void> on_verdict(const Verdict& verdict);

  /// The combined report of this member and all members below it.
  const Report& gathered() const { return gathered_; }
  /// Messages below this number are finished at all members below this one in the tree. UINT64_MAX if there
  /// are no members below this one.
  std::uint64_t finished_below() const;
  /// Returns the report for the parent if it differs from the last one that was sent. The caller must call
  /// told() when it has sent the report. Always returns nullopt at the root.
  std::optional<Report> report() const;
  void told(const Report& report) { reported_ = report; }
  /// At the root, the conclusion from the gathered reports. At other members, the last verdict received.
  Verdict verdict() const;
  /// Returns the verdict for child number `child` if it differs from the last one that was sent. The caller
  /// must call told() when it has sent the verdict.
  std::optional<Verdict> verdict_for(std::size_t child) const;
  void told(std::size_t child, const Verdict& verdict) { children_[child].told = verdict; }

 private:
  struct Child {
    Report report;
    Verdict told;
  };
  void gather();

  bool is_root_;
  std::vector<Child> children_;
  Report own_, reported_;
  // Combined from own_ and the children's reports. It is stored because every turn reads it, but few turns
  // change it.
  Report gathered_;
  Verdict heard_;
};

}  // namespace rdmc::group
