// The message store of one round of a recovery. The round sends blocks of several messages, which may lie
// anywhere in memory. Their bytes are joined to one sequence, which is cut into new blocks. The sequence
// passes through a ring buffer of a few slots. The source copies bytes from the messages into the ring
// buffer. A receiver copies them from its ring buffer into the messages. So the size of the ring buffer does
// not depend on how much is missing. Each end copies the bytes once.
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
  /// One block of one message. Must not be empty.
  struct Piece {
    std::span<std::byte> bytes;  ///< The memory of the block. Must outlive the store.
    std::uint64_t message = 0, block = 0;
    /// Used only at a receiver. False if the receiver already has the block and only passes it on.
    bool is_wanted = true;
  };
  using Recovered = std::function<void(std::uint64_t message, std::uint64_t block)>;

  /// `ring` must have space for `slots` whole blocks. `recovered` is called at a receiver, once for each
  /// wanted piece, when the bytes of the piece have arrived. At the source, `recovered` is empty.
  RecoveryStore(std::vector<Piece> pieces, std::span<std::byte> ring, std::uint64_t slots,
                std::uint32_t block_bytes, Recovered recovered);

  /// The number of bytes of all pieces.
  std::uint64_t size() const { return size_; }

  std::span<std::byte> memory() override { return ring_; }
  std::uint64_t slots() const override { return slots_; }
  Result<std::uint64_t> available() override;
  void arrived(std::uint64_t block, std::uint32_t bytes) override;
  Result<void> poll_consumed(std::vector<std::uint64_t>& blocks) override;
  void released(std::uint64_t limit) override { limit_ = limit + slots_; }

 private:
  /// Calls `use` for each piece that has bytes in `block`. The arguments are the piece, these bytes in the
  /// message, and the same bytes in the ring.
  template <typename Use>
  void for_each_piece(std::uint64_t block, Use use);

  struct Placed {
    Piece piece;
    std::uint64_t begin = 0;  ///< The position of the piece in the sequence.
    std::size_t left = 0;     ///< The bytes that have not arrived.
  };
  std::vector<Placed> pieces_;
  std::span<std::byte> ring_;
  std::uint64_t slots_, block_bytes_;
  Recovered recovered_;
  std::uint64_t size_ = 0;
  // At the source: blocks below filled_ are in the ring, and blocks below limit_ may be copied there.
  std::uint64_t filled_ = 0, limit_;
  std::vector<std::uint64_t> consumed_;
};

}  // namespace rdmc::group
