#include "lib/group/recovery_store.hpp"

#include <algorithm>
#include <utility>

#include "lib/group/recovery_plan.hpp"

namespace rdmc::group {

RecoveryStore::RecoveryStore(std::vector<Piece> pieces, std::span<std::byte> ring, std::uint64_t slots,
                             std::uint32_t block_bytes, Recovered recovered)
    : ring_(ring), slots_(slots), block_bytes_(block_bytes), recovered_(std::move(recovered)), limit_(slots) {
  for (const Piece& piece : pieces) {
    pieces_.push_back({.piece = piece, .begin = size_, .left = piece.bytes.size()});
    size_ += piece.bytes.size();
  }
}

template <typename Use>
void RecoveryStore::for_each_piece(std::uint64_t block, Use use) {
  const std::uint64_t begin = block * block_bytes_, end = std::min(size_, begin + block_bytes_);
  const auto slot = ring_.subspan(block % slots_ * block_bytes_, end - begin);
  auto at = std::ranges::upper_bound(
      pieces_, begin, {}, [](const Placed& placed) { return placed.begin + placed.piece.bytes.size(); });
  for (; at != pieces_.end() && at->begin < end; ++at) {
    const std::uint64_t from = std::max(begin, at->begin);
    const std::uint64_t to = std::min(end, at->begin + at->piece.bytes.size());
    use(*at, at->piece.bytes.subspan(from - at->begin, to - from), slot.subspan(from - begin, to - from));
  }
}

Result<std::uint64_t> RecoveryStore::available() {
  for (const std::uint64_t end = std::min(limit_, relay::block_count(size_, block_bytes_)); filled_ < end;
       ++filled_) {
    for_each_piece(filled_, [](Placed&, auto bytes, auto slot) { std::ranges::copy(bytes, slot.begin()); });
  }
  return filled_;
}

void RecoveryStore::arrived(std::uint64_t block, std::uint32_t) {
  consumed_.push_back(block);
  for_each_piece(block, [this](Placed& placed, auto bytes, auto slot) {
    if (!placed.piece.is_wanted) return;
    std::ranges::copy(slot, bytes.begin());
    placed.left -= bytes.size();
    if (placed.left == 0) recovered_(placed.piece.message, placed.piece.block);
  });
}

Result<void> RecoveryStore::poll_consumed(std::vector<std::uint64_t>& blocks) {
  blocks.insert(blocks.end(), consumed_.begin(), consumed_.end());
  consumed_.clear();
  return {};
}

}  // namespace rdmc::group
