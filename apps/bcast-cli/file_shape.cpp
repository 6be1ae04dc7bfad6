#include "apps/bcast-cli/file_shape.hpp"

#include <bit>
#include <cassert>
#include <utility>

namespace rdmc::bcast {

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
