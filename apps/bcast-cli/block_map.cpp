#include "apps/bcast-cli/block_map.hpp"

#include <bit>
#include <cassert>
#include <optional>
#include <utility>

namespace rdmc::bcast {
namespace {

void put_varint(std::vector<std::byte>& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::byte>(value | 0x80));
  out.push_back(static_cast<std::byte>(value));
}

/// LEB128 with one spelling for each number: no trailing zero groups, no bits past the 64th.
std::optional<std::uint64_t> take_varint(std::span<const std::byte>& in) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto group = std::to_integer<std::uint64_t>(in.front());
    in = in.subspan(1);
    if (shift == 63 && group > 1) return std::nullopt;
    value |= (group & 0x7F) << shift;
    if (group < 0x80) return group == 0 && shift > 0 ? std::nullopt : std::optional(value);
  }
  return std::nullopt;
}

}  // namespace

std::uint32_t default_block_size(std::uint64_t file_size) {
  constexpr std::uint64_t kSmallest = 64 << 10;
  constexpr std::uint64_t kLargest = 512 << 10;
  constexpr std::uint64_t kBlocks = 64;
  return static_cast<std::uint32_t>(std::bit_floor(std::clamp(file_size / kBlocks, kSmallest, kLargest)));
}

Result<FileShape> FileShape::make(std::uint64_t size, std::uint64_t block_size) {
  if (size > std::uint64_t{1} << 62) return fail(Errc::protocol_error, "a file of more than 2^62 bytes");
  if (block_size < kMinBlockSize || block_size > kMaxBlockSize || block_size % kMinBlockSize != 0)
    return fail(Errc::protocol_error, "a block size out of bounds");
  return FileShape{size, static_cast<std::uint32_t>(block_size)};
}

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

void BlockMap::insert(BlockRange range) {
  assert(range.begin < range.end && range.end <= blocks_);
  // Every range that overlaps or touches the new one becomes part of it.
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
  return (a.complement() & b.complement()).complement();  // linear, however many ranges a peer has sent
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
  std::vector<std::pair<std::uint64_t, std::uint64_t>> gaps;  // length, where it begins
  for (std::size_t i = 1; i < ranges_.size(); ++i)
    gaps.emplace_back(ranges_[i].begin - ranges_[i - 1].end, ranges_[i - 1].end);
  const auto excess = static_cast<std::ptrdiff_t>(ranges_.size() - max_ranges);
  std::nth_element(gaps.begin(), gaps.begin() + (excess - 1), gaps.end());
  gaps.resize(static_cast<std::size_t>(excess));
  BlockMap filling(blocks_);
  std::ranges::sort(gaps, {}, &std::pair<std::uint64_t, std::uint64_t>::second);
  for (const auto& [length, begin] : gaps) filling.append({begin, begin + length});
  // Merging two sorted rows of ranges: one insert each would be quadratic for a map of this size.
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
  const auto total = take_varint(bytes);
  const auto ranges = total ? take_varint(bytes) : std::nullopt;
  if (!ranges || *ranges > kMaxRanges) return malformed();
  if (*total != blocks) return fail(Errc::protocol_error, "a block map of another file");
  BlockMap map(blocks);
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < *ranges; ++i) {
    const auto gap = take_varint(bytes);
    const auto length = gap ? take_varint(bytes) : std::nullopt;
    if (!length || (i > 0 && *gap == 0) || *length == 0) return malformed();
    if (*gap > blocks - at || *length > blocks - at - *gap) return malformed();
    map.append({at + *gap, at + *gap + *length});
    at += *gap + *length;
  }
  if (!bytes.empty()) return malformed();
  return map;
}

VirtualBlocks::VirtualBlocks(FileShape shape, BlockMap map) : shape_(shape), map_(std::move(map)) {
  assert(map_.blocks() == shape_.blocks());
  std::uint64_t before = 0;
  for (const auto& range : map_.ranges()) {
    before_.push_back(before);
    before += range.end - range.begin;
  }
}

std::uint64_t VirtualBlocks::size() const {
  return count() == 0 ? 0 : (count() - 1) * shape_.block_size + bytes(count() - 1);
}

std::uint64_t VirtualBlocks::real(std::uint64_t index) const {
  assert(index < count());
  const auto after = std::ranges::upper_bound(before_, index);
  const auto which = static_cast<std::size_t>(after - before_.begin()) - 1;
  return map_.ranges()[which].begin + (index - before_[which]);
}

}  // namespace rdmc::bcast
