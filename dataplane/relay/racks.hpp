// The racks of a group's members. The members of one rack have consecutive ranks, and the root's rack comes
// first. The first member of a rack is its head. The head receives the blocks from the previous rack. A Racks
// object is cheap to copy, and any thread may use it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/relay/plan.hpp"

namespace rdmc::relay {

struct Rack {
  std::uint32_t head = 0;     ///< the rank of the rack's first member
  std::uint32_t members = 1;  ///< >= 1
  std::uint64_t start = 0;    ///< the step in which the head sends block 0
  friend bool operator==(const Rack&, const Rack&) = default;
};

class Racks {
 public:
  /// Makes racks that are not known. All members then count as one rack.
  Racks() = default;
  /// Makes racks from the number of members of each rack. `sizes` is in the order of the ranks. Errors:
  /// invalid_argument (no rack, an empty rack, more than kMaxMembers members).
  static Result<Racks> of(std::span<const std::uint32_t> sizes);
  /// Makes one rack with all members. Precondition: 1 <= members <= kMaxMembers.
  static Racks one(std::uint32_t members);

  bool is_known() const { return racks_ != nullptr; }
  /// True if there are at least two racks, and at least one of them has more than one member.
  bool are_shared() const { return all().size() > 1 && all().size() < members(); }
  /// The number of members, or 0 if the racks are not known.
  std::uint32_t members() const { return is_known() ? racks_->back().head + racks_->back().members : 0; }
  std::span<const Rack> all() const {
    return is_known() ? std::span<const Rack>(*racks_) : std::span<const Rack>();
  }
  /// The index of the rack that contains `rank`. Precondition: rank < members().
  std::size_t index_of(std::uint32_t rank) const;
  std::vector<std::uint32_t> sizes() const;

  friend bool operator==(const Racks& a, const Racks& b) { return std::ranges::equal(a.all(), b.all()); }

 private:
  explicit Racks(std::vector<Rack> racks)
      : racks_(std::make_shared<const std::vector<Rack>>(std::move(racks))) {}

  std::shared_ptr<const std::vector<Rack>> racks_;  // never empty
};

/// The order in which members get ranks.
struct RankOrder {
  std::vector<std::size_t> order;  ///< for each rank, an index into `labels`
  Racks racks;
};
/// Orders members by their racks. labels[i] identifies the rack of member i, and member 0 is the root. The
/// racks are in the order of their first members, so the root's rack is the first. Members of one rack keep
/// their order. Precondition: there are 1 to kMaxMembers labels.
RankOrder order_by_rack(std::span<const std::uint32_t> labels);

}  // namespace rdmc::relay
