#include "lib/replica/ring.hpp"

#include <algorithm>

#include "lib/replica/arguments.hpp"
#include "lib/replica/request_window.hpp"

namespace rdmc::replica::collectives {

namespace {

/// Gives the blocks of the parts of size() - 1 ranks: from the rank `first` on downwards, and after rank 0
/// the last rank.
class BlocksDownwards {
 public:
  BlocksDownwards(const Exchange& exchange, std::span<std::byte> all, const PartLengths& lengths,
                  std::size_t block_bytes, int first)
      : all_(all),
        lengths_(lengths),
        block_bytes_(block_bytes),
        size_(exchange.size()),
        parts_(exchange.size() - 1),
        rank_(first),
        begin_(lengths.before(first)) {
    skip_empty();
  }

  bool is_empty() const { return parts_ == 0; }
  std::span<std::byte> next() {
    const auto rest = all_.subspan(begin_ + given_, lengths_.of(rank_) - given_);
    const auto block = rest.first(std::min(rest.size(), block_bytes_));
    given_ += block.size();
    skip_empty();
    return block;
  }

 private:
  /// Goes to the next part as long as the present one has no more bytes.
  void skip_empty() {
    while (parts_ > 0 && given_ == lengths_.of(rank_)) {
      --parts_;
      given_ = 0;
      if (rank_ == 0) begin_ = all_.size();
      rank_ = rank_ == 0 ? size_ - 1 : rank_ - 1;
      begin_ -= lengths_.of(rank_);
    }
  }

  std::span<std::byte> all_;
  PartLengths lengths_;
  std::size_t block_bytes_;
  int size_;
  int parts_;  ///< the parts that have bytes left, or have not been looked at
  int rank_;   ///< the rank of the first of them
  std::size_t begin_;
  std::size_t given_ = 0;  ///< the bytes of this part that were given
};

}  // namespace

// A rank receives a block in the same step in which the rank before it sends this block. If the own part is
// empty, a rank also sends the block in this step. This is no deadlock, because one rank has the block from
// the beginning.
Result<void> gather_in_ring(Exchange& exchange, std::span<std::byte> all, const PartLengths& lengths,
                            std::size_t block_bytes) {
  const int rank = exchange.rank();
  const int to = rank_above(exchange, rank, 1 % exchange.size());
  const int from = rank_below(exchange, rank, 1 % exchange.size());
  BlocksDownwards sends(exchange, all, lengths, block_bytes, rank);
  BlocksDownwards receives(exchange, all, lengths, block_bytes, from);
  RequestWindow window(exchange, Kind::all_gather, RequestWindow::kFewSends);
  while (!sends.is_empty() || !receives.is_empty()) {
    if (!receives.is_empty()) {
      if (auto done = window.receive(receives.next(), from); !done) return done;
    }
    if (!sends.is_empty()) {
      if (auto done = window.send(sends.next(), to); !done) return done;
    }
  }
  return window.finish();
}

}  // namespace rdmc::replica::collectives
