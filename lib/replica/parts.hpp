// The lengths and positions of the parts of a vector that has one part for each rank, in the order of the
// ranks, without gaps. A plain value.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace rdmc::replica::collectives {

class PartLengths {
 public:
  static PartLengths equal(std::size_t bytes) { return PartLengths({}, bytes, 0, 0); }
  /// One length for each rank. The caller keeps the list while the object is used.
  static PartLengths listed(std::span<const std::size_t> bytes) { return PartLengths(bytes, 0, 0, 0); }
  /// Cuts `elements` elements of `element` bytes into parts that differ by one element at most. The first
  /// parts are the longer ones.
  static PartLengths of_elements(std::size_t elements, std::size_t element, int parts) {
    const auto count = static_cast<std::size_t>(parts);
    return PartLengths({}, elements / count * element, elements % count, element);
  }

  std::size_t of(int rank) const {
    const auto part = static_cast<std::size_t>(rank);
    return listed_.empty() ? least_ + (part < longer_ ? extra_ : 0) : listed_[part];
  }
  /// The sum of the lengths of the parts of lower ranks. Takes O(rank) time if the lengths are listed.
  std::size_t before(int rank) const {
    const auto part = static_cast<std::size_t>(rank);
    if (listed_.empty()) return least_ * part + extra_ * std::min(part, longer_);
    std::size_t sum = 0;
    for (const std::size_t bytes : listed_.first(part)) sum += bytes;
    return sum;
  }
  /// The part of `rank` in the vector `all`.
  template <typename Byte>
  std::span<Byte> part(std::span<Byte> all, int rank) const {
    return all.subspan(before(rank), of(rank));
  }

 private:
  PartLengths(std::span<const std::size_t> listed, std::size_t least, std::size_t longer, std::size_t extra)
      : listed_(listed), least_(least), longer_(longer), extra_(extra) {}

  std::span<const std::size_t> listed_;
  std::size_t least_;   ///< the length of a part, if the lengths are not listed
  std::size_t longer_;  ///< this number of parts are longer
  std::size_t extra_;   ///< the bytes by which they are longer
};

}  // namespace rdmc::replica::collectives
