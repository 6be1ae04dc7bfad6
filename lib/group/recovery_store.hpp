// The bytes of one round of a recovery: blocks of several messages, wherever those lie, as one row of bytes
// that is cut anew. It passes through a ring of a few slots, filled from the messages at the source and
// emptied into them at a receiver, so that it takes the same memory however much is lacking. One copy at each
// end.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "dataplane/memory/arena.hpp"
#include "lib/group/store.hpp"

namespace rdmc::group {

class RecoveryStore final : public Store {
 public:
  /// One block of one message, not empty.
  struct Piece {
    std::span<std::byte> bytes;  ///< where it lies; outlives the store
    std::uint64_t message = 0, block = 0;
    bool is_wanted = true;  ///< at a receiver; else it is there already, and is only passed on
  };
  using Recovered = std::function<void(std::uint64_t message, std::uint64_t block)>;

  /// `ring` has room for whole blocks, `slots` of them. `recovered` is called at a receiver, once for each
  /// wanted piece, when its bytes are there; none: this is the source.
  RecoveryStore(std::vector<Piece> pieces, std::span<std::byte> ring, std::uint64_t slots,
                std::uint32_t block_bytes, Recovered recovered);

  /// Of all pieces.
  std::uint64_t size() const { return size_; }

  std::span<std::byte> memory() override { return ring_; }
  std::uint64_t slots() const override { return slots_; }
  Result<std::uint64_t> available() override;
  void arrived(std::uint64_t block, std::uint32_t bytes) override;
  Result<void> poll_consumed(std::vector<std::uint64_t>& blocks) override;
  void released(std::uint64_t limit) override { limit_ = limit + slots_; }

 private:
  /// Calls `use`(piece, its bytes, the same bytes in the ring) for each piece that block `block` touches.
  template <typename Use>
  void for_each_piece(std::uint64_t block, Use use);

  struct Placed {
    Piece piece;
    std::uint64_t begin = 0;  ///< in the row
    std::size_t left = 0;     ///< bytes that are to come
  };
  std::vector<Placed> pieces_;
  std::span<std::byte> ring_;
  std::uint64_t slots_, block_bytes_;
  Recovered recovered_;
  std::uint64_t size_ = 0;
  std::uint64_t filled_ = 0, limit_;  // source: blocks below filled_ are in the ring, below limit_ may be
  std::vector<std::uint64_t> consumed_;
};

}  // namespace rdmc::group
