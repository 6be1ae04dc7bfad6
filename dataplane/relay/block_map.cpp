#include "dataplane/relay/block_map.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "dataplane/base/varint.hpp"

namespace rdmc::relay {

BlockMap BlockMap::full(std::uint64_t blocks) {
  BlockMap map(blocks);
  if (blocks > 0) map.append({0, blocks});
  return map;
}

bool BlockMap::contains(std::uint64_t block) const {
  const auto after = std::ranges::upper_bound(ranges_, block, {}, &BlockRange::begin);
  return after != ranges_.begin() && block < std::prev(after)->end;
}

void BlockMap::append(BlockRange range) {
  count_ += range.end - range.begin;
  if (!ranges_.empty() && ranges_.back().end == range.begin)
    ranges_.back().end = range.end;
  else
    ranges_.push_back(range);
}

void BlockMap::append(const BlockMap& behind) {
  for (const auto& range : behind.ranges_) append({blocks_ + range.begin, blocks_ + range.end});
  blocks_ += behind.blocks_;
}

void BlockMap::insert(BlockRange range) {
  assert(range.begin < range.end && range.end <= blocks_);
  // All ranges that overlap or touch the new range are merged with it.
  const auto first = std::ranges::lower_bound(ranges_, range.begin, {}, &BlockRange::end);
  const auto last = std::ranges::upper_bound(first, ranges_.end(), range.end, {}, &BlockRange::begin);
  for (auto it = first; it != last; ++it) {
    count_ -= it->end - it->begin;
    range.begin = std::min(range.begin, it->begin);
    range.end = std::max(range.end, it->end);
  }
  count_ += range.end - range.begin;
  if (first == last) {
    ranges_.insert(first, range);
  } else {
    *first = range;
    ranges_.erase(std::next(first), last);
  }
}

BlockMap BlockMap::complement() const {
  BlockMap result(blocks_);
  std::uint64_t at = 0;
  for (const auto& range : ranges_) {
    if (at < range.begin) result.append({at, range.begin});
    at = range.end;
  }
  if (at < blocks_) result.append({at, blocks_});
  return result;
}

BlockMap operator|(const BlockMap& a, const BlockMap& b) {
  assert(a.blocks_ == b.blocks_);
  // This computation takes linear time in the number of ranges. This matters because a peer may send maps
  // with many ranges.
  return (a.complement() & b.complement()).complement();
}

BlockMap operator&(const BlockMap& a, const BlockMap& b) {
  assert(a.blocks_ == b.blocks_);
  BlockMap result(a.blocks_);
  for (auto i = a.ranges_.begin(), j = b.ranges_.begin(); i != a.ranges_.end() && j != b.ranges_.end();) {
    const BlockRange common{std::max(i->begin, j->begin), std::min(i->end, j->end)};
    if (common.begin < common.end) result.append(common);
    if (i->end < j->end)
      ++i;
    else
      ++j;
  }
  return result;
}

BlockMap BlockMap::superset(std::size_t max_ranges) const {
  assert(max_ranges > 0);
  if (ranges_.size() <= max_ranges) return *this;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> gaps;  // the length of each gap, and its first block
  for (std::size_t i = 1; i < ranges_.size(); ++i)
    gaps.emplace_back(ranges_[i].begin - ranges_[i - 1].end, ranges_[i - 1].end);
  const auto excess = static_cast<std::ptrdiff_t>(ranges_.size() - max_ranges);
  std::nth_element(gaps.begin(), gaps.begin() + (excess - 1), gaps.end());
  gaps.resize(static_cast<std::size_t>(excess));
  BlockMap filling(blocks_);
  std::ranges::sort(gaps, {}, &std::pair<std::uint64_t, std::uint64_t>::second);
  for (const auto& [length, begin] : gaps) filling.append({begin, begin + length});
  // Merges two sorted lists of ranges. One insert() for each gap would take quadratic time for a map of this
  // size.
  BlockMap result(blocks_);
  for (auto i = ranges_.cbegin(), j = filling.ranges_.cbegin();
       i != ranges_.cend() || j != filling.ranges_.cend();) {
    const bool own = j == filling.ranges_.end() || (i != ranges_.end() && i->begin < j->begin);
    result.append(own ? *i++ : *j++);
  }
  return result;
}

std::vector<std::byte> BlockMap::encode() const {
  assert(ranges_.size() <= kMaxRanges);
  std::vector<std::byte> out;
  put_varint(out, blocks_);
  put_varint(out, ranges_.size());
  std::uint64_t at = 0;
  for (const auto& range : ranges_) {
    put_varint(out, range.begin - at);
    put_varint(out, range.end - range.begin);
    at = range.end;
  }
  return out;
}

Result<BlockMap> BlockMap::decode(std::span<const std::byte> bytes, std::uint64_t blocks) {
  const auto malformed = [] { return fail(Errc::protocol_error, "malformed block map"); };
  VarintReader in(bytes);
  const auto total = in.number(), ranges = in.number(kMaxRanges);
  if (!in.is_good()) return malformed();
  if (total != blocks) return fail(Errc::protocol_error, "a block map of another file");
  BlockMap map(blocks);
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < ranges; ++i) {
    const auto gap = in.number(blocks - at), length = in.number(blocks - at - gap);
    if (length == 0 || (i > 0 && gap == 0)) return malformed();
    map.append({at + gap, at + gap + length});
    at += gap + length;
  }
  if (!in.is_done()) return malformed();
  return map;
}

}  // namespace rdmc::relay
