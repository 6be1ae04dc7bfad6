#include <algorithm>
#include <cmath>

#include "dataplane/relay/binomial_pipeline.hpp"
#include "lib/replica/arguments.hpp"
#include "lib/replica/binomial_tree.hpp"
#include "lib/replica/collectives.hpp"
#include "lib/replica/request_window.hpp"

namespace rdmc::replica::collectives {

namespace {

/// The receives of this number of later steps are begun in advance, so that their sources need not wait.
constexpr std::uint64_t kStepsAhead = 8;

Result<void> broadcast_whole(Exchange& exchange, std::span<std::byte> bytes, int root) {
  const BinomialTree tree(exchange, root);
  RequestWindow window(exchange, Kind::broadcast);
  if (!tree.is_root()) {
    if (auto done = window.receive(bytes, tree.parent()); !done) return done;
  }
  for (int child = tree.children(); child-- > 0;) {
    if (auto done = window.send(bytes, tree.child(child)); !done) return done;
  }
  return window.finish();
}

/// Follows the schedule of the binomial pipeline. The members of the schedule are the ranks, counted from the
/// root.
class PipelinedBroadcast {
 public:
  PipelinedBroadcast(Exchange& exchange, std::span<std::byte> bytes, int root, std::size_t block_bytes)
      : exchange_(exchange),
        bytes_(bytes),
        root_(root),
        block_bytes_(block_bytes),
        blocks_(relay::block_count(bytes.size(), block_bytes)),
        plan_(Rank{static_cast<std::uint32_t>(rank_below(exchange, exchange.rank(), root))},
              static_cast<std::uint32_t>(exchange.size())),
        window_(exchange, Kind::broadcast, RequestWindow::kFewSends) {}

  Result<void> run() {
    const std::uint64_t steps = plan_.steps(blocks_);
    std::uint64_t ahead = 0;
    for (std::uint64_t step = 0; step < steps; ++step) {
      for (; ahead < steps && ahead <= step + kStepsAhead; ++ahead) {
        const auto receive = plan_.at(ahead, blocks_).receive;
        if (!receive) continue;
        if (auto done = window_.receive(block(receive->block), rank_of(receive->peer)); !done) return done;
      }
      const auto send = plan_.at(step, blocks_).send;
      if (!send) continue;
      if (auto done = window_.send(block(send->block), rank_of(send->peer)); !done) return done;
    }
    return window_.finish();
  }

 private:
  std::span<std::byte> block(std::uint64_t number) const {
    const std::size_t from = number * block_bytes_;
    return bytes_.subspan(from, std::min(block_bytes_, bytes_.size() - from));
  }
  int rank_of(Rank member) const { return rank_above(exchange_, root_, static_cast<int>(value_of(member))); }

  Exchange& exchange_;
  std::span<std::byte> bytes_;
  int root_;
  std::size_t block_bytes_;
  std::uint64_t blocks_;
  relay::BinomialPipeline plan_;
  RequestWindow window_;
};

}  // namespace

std::size_t broadcast_block_bytes(std::size_t bytes, int size, const Tuning& tuning) {
  if (size <= 2 || bytes == 0) return bytes;
  // With blocks of b bytes, a step takes as long as start + b bytes, and there are bytes / b - 1 + depth
  // steps. The product is least for b = sqrt(bytes x start / (depth - 1)).
  const auto depth = static_cast<double>(relay::depth_of(static_cast<std::uint32_t>(size)));
  const auto length = static_cast<double>(bytes);
  const auto start = static_cast<double>(tuning.start_bytes);
  const double best = std::ceil(std::sqrt(length * start / (depth - 1)));
  const double block =
      std::clamp(best, 1.0, static_cast<double>(std::min(bytes, tuning.broadcast_block_bytes)));
  const double steps = std::ceil(length / block) - 1 + depth;
  if (steps * (start + block) >= depth * (start + length)) return bytes;
  return static_cast<std::size_t>(block);
}

Result<void> broadcast(Exchange& exchange, std::span<std::byte> bytes, int root, const Tuning& tuning) {
  if (auto done = check_root(exchange, root); !done) return done;
  if (bytes.empty() || exchange.size() == 1) return {};
  const std::size_t block = broadcast_block_bytes(bytes.size(), exchange.size(), tuning);
  if (block == bytes.size()) return broadcast_whole(exchange, bytes, root);
  return PipelinedBroadcast(exchange, bytes, root, block).run();
}

}  // namespace rdmc::replica::collectives
