#include "lib/replica/reduction.hpp"

#include "lib/replica/arguments.hpp"
#include "lib/replica/scratch.hpp"

namespace rdmc::replica::collectives {

namespace {

std::size_t count_of_blocks(std::size_t bytes, std::size_t block) {
  return bytes / block + (bytes % block == 0 ? 0 : 1);
}

/// Returns block `number` of `values`. It is empty if there is no such block.
template <typename Byte>
std::span<Byte> block_of(std::span<Byte> values, std::size_t number, std::size_t block) {
  const std::size_t begin = std::min(number * block, values.size());
  return values.subspan(begin, std::min(block, values.size() - begin));
}

/// The blocks that a trade has received and not yet combined.
constexpr std::size_t kBlocksAhead = 4;

}  // namespace

Result<void> trade_and_combine(Exchange& exchange, Kind kind, std::span<const std::byte> give,
                               std::span<std::byte> keep, int peer, const Reduction& reduction) {
  const std::size_t block = reduction.block();
  const std::size_t kept = count_of_blocks(keep.size(), block), given = count_of_blocks(give.size(), block);
  Scratch scratch;
  const auto memory = scratch.reserve(std::min(keep.size(), kBlocksAhead * block));
  if (!memory) return std::unexpected(memory.error());
  const bool is_peer_lower = peer < exchange.rank();
  RequestWindow window(exchange, kind, RequestWindow::kFewSends);

  const auto received = [&](std::size_t number) {
    return memory->subspan(number % kBlocksAhead * block, block_of(keep, number, block).size());
  };
  const auto combine = [&](std::size_t number) -> Result<void> {
    const auto own = block_of(keep, number, block), other = received(number);
    if (auto done = window.wait_for(other); !done) return done;
    if (is_peer_lower) {
      reduction.apply(other, own);
    } else {
      reduction.apply(own, other);
      copy_part(own, other);
    }
    return {};
  };

  std::size_t combined = 0;
  for (std::size_t number = 0; number < std::max(kept, given); ++number) {
    if (combined < kept && combined + kBlocksAhead <= number) {
      if (auto done = combine(combined++); !done) return done;
    }
    if (number < kept) {
      if (auto done = window.receive(received(number), peer); !done) return done;
    }
    if (number < given) {
      if (auto done = window.send(block_of(give, number, block), peer); !done) return done;
    }
  }
  while (combined < kept) {
    if (auto done = combine(combined++); !done) return done;
  }
  return window.finish();
}

namespace {

/// Receives the values of the own part in turns. Each turn has one block of the part from each rank. While
/// the blocks of a turn are combined, those of the next turn are received.
class OwnPart {
 public:
  OwnPart(Exchange& exchange, std::span<std::byte> values, const PartLengths& parts,
          const Reduction& reduction, std::size_t scratch_bytes)
      : exchange_(exchange),
        values_(values),
        parts_(parts),
        reduction_(reduction),
        size_(static_cast<std::size_t>(exchange.size())),
        own_(parts.part(values, exchange.rank())),
        grouping_(exchange.size()),
        window_(exchange, Kind::reduce_scatter, RequestWindow::kFewSends) {
    const Reduction share{.element = reduction.element, .block_bytes = scratch_bytes / 2 / size_};
    block_ = std::min({share.block(), reduction.block(), std::max(parts.of(0), reduction.element)});
  }

  Result<void> run() {
    // The pointers are at the beginning, so they and the values are aligned.
    const std::size_t pointers =
        (size_ * sizeof(std::byte*) + Scratch::kAlignment - 1) / Scratch::kAlignment * Scratch::kAlignment;
    const auto memory = scratch_.reserve(pointers + 2 * size_ * block_);
    if (!memory) return std::unexpected(memory.error());
    held_ = {reinterpret_cast<std::byte**>(memory->data()), size_};
    received_ = memory->subspan(pointers);

    const std::size_t turns = count_of_blocks(parts_.of(0), block_);
    for (std::size_t turn = 0; turn < turns; ++turn) {
      if (auto done = trade(turn); !done) return done;
      if (turn == 0) continue;
      if (auto done = combine(turn - 1); !done) return done;
    }
    if (auto done = combine(turns - 1); !done) return done;
    return window_.finish();
  }

 private:
  std::span<std::byte> from(int rank, std::size_t turn) const {
    const std::size_t slot = turn % 2 * size_ + static_cast<std::size_t>(rank);
    return received_.subspan(slot * block_, block_of(own_, turn, block_).size());
  }

  Result<void> trade(std::size_t turn) {
    for (int distance = 1; distance < exchange_.size(); ++distance) {
      const int to = rank_above(exchange_, exchange_.rank(), distance);
      const int source = rank_below(exchange_, exchange_.rank(), distance);
      if (const auto into = from(source, turn); !into.empty()) {
        if (auto done = window_.receive(into, source); !done) return done;
      }
      if (const auto block = block_of(parts_.part(values_, to), turn, block_); !block.empty()) {
        if (auto done = window_.send(block, to); !done) return done;
      }
    }
    return {};
  }

  Result<void> combine(std::size_t turn) {
    const auto own = block_of(own_, turn, block_);
    if (own.empty()) return {};
    if (auto done = window_.wait_for(received_.subspan(turn % 2 * size_ * block_, size_ * block_)); !done)
      return done;
    const auto values_of = [&](int rank) {
      return rank == exchange_.rank() ? own.data() : from(rank, turn).data();
    };
    const auto apply = [&](std::byte* lower, std::byte* upper) {
      reduction_.apply({lower, own.size()}, {upper, own.size()});
    };
    for (int unit = 0; unit < grouping_.units(); ++unit) {
      held_[unit] = values_of(grouping_.last_rank(unit));
      if (grouping_.is_pair(unit)) apply(values_of(grouping_.first_rank(unit)), held_[unit]);
    }
    for (int width = 1; width < grouping_.units(); width *= 2) {
      for (int unit = 0; unit < grouping_.units(); unit += 2 * width) {
        apply(held_[unit], held_[unit + width]);
        held_[unit] = held_[unit + width];
      }
    }
    copy_part(own, {held_[0], own.size()});
    return {};
  }

  Exchange& exchange_;
  std::span<std::byte> values_;
  PartLengths parts_;
  Reduction reduction_;
  std::size_t size_;
  std::span<std::byte> own_;  ///< the part of `values` that this rank combines
  Grouping grouping_;
  std::size_t block_ = 0;
  Scratch scratch_;
  std::span<std::byte*> held_;     ///< the values of the units that are not yet combined
  std::span<std::byte> received_;  ///< two turns of a block from each rank
  RequestWindow window_;           // It is destroyed before the memory of its requests.
};

}  // namespace

Result<void> combine_own_part(Exchange& exchange, std::span<std::byte> values, const PartLengths& parts,
                              const Reduction& reduction, std::size_t scratch_bytes) {
  if (values.empty()) return {};
  return OwnPart(exchange, values, parts, reduction, scratch_bytes).run();
}

std::uint64_t ReductionCosts::whole_to_root() const {
  const Grouping grouping(size);
  return static_cast<std::uint64_t>(grouping.depth() + (grouping.has_pairs() ? 1 : 0)) * (start + bytes);
}

std::uint64_t ReductionCosts::whole_to_all() const {
  const Grouping grouping(size);
  return static_cast<std::uint64_t>(grouping.depth() + (grouping.has_pairs() ? 2 : 0)) * (start + bytes);
}

std::uint64_t ReductionCosts::halves_to_all() const {
  const Grouping grouping(size);
  const auto units = static_cast<std::uint64_t>(grouping.units());
  return 2 * static_cast<std::uint64_t>(grouping.depth()) * start + 2 * (bytes - bytes / units) +
         (grouping.has_pairs() ? 2 * (start + bytes) : 0);
}

std::uint64_t ReductionCosts::direct() const {
  const auto ranks = static_cast<std::uint64_t>(size);
  return 2 * (ranks - 1) * start + 2 * (bytes - bytes / ranks);
}

}  // namespace rdmc::replica::collectives
