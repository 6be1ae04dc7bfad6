// Who has what, gathered up a tree of the members and told back down it: the number of messages that every
// member has (stable), and the closing barrier that certifies that nothing is left to do anywhere. Also the
// tree itself. Pure; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::group {

/// Whom a member hears from and whom it tells, beside the block schedule: small groups are a star around the
/// root, larger ones a binomial tree, in which member r is the child of r without its lowest bit.
struct Tree {
  static constexpr std::uint32_t kStarMembers = 8;

  /// rank < members.
  static Tree of(Rank rank, std::uint32_t members);
  std::optional<Rank> parent;  ///< none: the root
  std::vector<Rank> children;  ///< those with the most below them first
};

/// Who holds up the group: its application has kept `message` waiting for memory, or for the group, for a
/// while.
struct Holder {
  Rank member{};
  std::uint64_t message = 0;
  friend bool operator==(const Holder&, const Holder&) = default;
};

/// What a member says of itself and all below it: the least of each. Every field but `holder` only grows.
struct Report {
  std::uint64_t delivered = 0;  ///< messages below this number
  std::uint64_t finished = 0;   ///< messages below are delivered, passed on and acknowledged
  std::uint64_t charge = 0;     ///< of the small messages delivered, see SmallWindow
  bool closing = false;         ///< all wish the group's end
  std::uint64_t waited =
      0;  ///< of what is delivered, one more than the last that waited for memory; the most
  std::optional<Holder> holder{};  ///< of several, who waits with the lowest message
  friend bool operator==(const Report&, const Report&) = default;
};

/// What the root concludes.
struct Verdict {
  std::uint64_t stable = 0;  ///< every member has the messages below this number
  bool closed = false;       ///< nothing is left to do anywhere, nor will be
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

class Confirmation {
 public:
  Confirmation(bool is_root, std::size_t children) : is_root_(is_root), children_(children) {}

  /// Of this member alone. The root has delivered what it has sent.
  void set_own(const Report& own) {
    if (own == own_) return;
    own_ = own;
    gather();
  }
  /// Of child number `child`. Errors: protocol_error (something has shrunk, or has finished or waited
  /// undelivered).
  Result<void> on_report(std::size_t child, const Report& report);
  /// From the parent. Errors: protocol_error (something has shrunk; more than we have; closed unasked).
  Result<void> on_verdict(const Verdict& verdict);

  /// The least of all at or below us.
  const Report& gathered() const { return gathered_; }
  /// Messages below it are finished at all below us.
  std::uint64_t finished_below() const;
  /// For the parent, if it is news; told() when it is on its way. Nothing at the root.
  std::optional<Report> report() const;
  void told(const Report& report) { reported_ = report; }
  /// The root's own from what it has gathered, the others' as they heard it.
  Verdict verdict() const;
  /// For child number `child`, if it is news; told() when it is on its way.
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
  Report gathered_;  // of own_ and the children's: kept, since every turn asks for it and few change it
  Verdict heard_;
};

}  // namespace rdmc::group
