// How the members of a group lie in racks. Those of one rack have consecutive ranks, the root's rack comes
// first, and each rack's first member, its head, takes the blocks from the rack before. A value that is cheap
// to copy; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/relay/plan.hpp"

namespace rdmc::relay {

struct Rack {
  std::uint32_t head = 0;     ///< rank of its first member
  std::uint32_t members = 1;  ///< >= 1
  std::uint64_t start = 0;    ///< the step in which its head sends block 0
  friend bool operator==(const Rack&, const Rack&) = default;
};

class Racks {
 public:
  /// Nothing is known: as if all members were in one rack.
  Racks() = default;
  /// `sizes`: the members of each rack, in the order of their ranks. Errors: invalid_argument (an empty rack,
  /// more than kMaxMembers).
  static Result<Racks> of(std::span<const std::uint32_t> sizes);
  /// All in one. 1 <= members <= kMaxMembers.
  static Racks one(std::uint32_t members);

  bool is_known() const { return racks_ != nullptr; }
  /// There are two or more, and one has more than one member.
  bool are_shared() const { return all().size() > 1 && all().size() < members(); }
  /// 0 when nothing is known.
  std::uint32_t members() const { return is_known() ? racks_->back().head + racks_->back().members : 0; }
  std::span<const Rack> all() const {
    return is_known() ? std::span<const Rack>(*racks_) : std::span<const Rack>();
  }
  /// The index of the rack that `rank` (< members()) is in.
  std::size_t index_of(std::uint32_t rank) const;
  std::vector<std::uint32_t> sizes() const;

  friend bool operator==(const Racks& a, const Racks& b) { return std::ranges::equal(a.all(), b.all()); }

 private:
  explicit Racks(std::vector<Rack> racks)
      : racks_(std::make_shared<const std::vector<Rack>>(std::move(racks))) {}

  std::shared_ptr<const std::vector<Rack>> racks_;  // never empty
};

/// In which order members take ranks.
struct RankOrder {
  std::vector<std::size_t> order;  ///< by rank: an index of `labels`
  Racks racks;
};
/// labels[i] names the rack of member i, of whom member 0 is the root. Racks follow in the order of their
/// first members, the root's first; members keep their order within a rack. 1 … kMaxMembers labels.
RankOrder order_by_rack(std::span<const std::uint32_t> labels);

}  // namespace rdmc::relay
