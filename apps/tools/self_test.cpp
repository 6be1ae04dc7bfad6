#include "apps/tools/self_test.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

#include "dataplane/base/clock.hpp"
#include "dataplane/memory/arena.hpp"

namespace rdmc::tools {
namespace {

constexpr std::size_t kBlockBytes = 256 << 10, kBlocks = 64;
constexpr std::uint64_t kBlocksInFlight = 16;
constexpr Duration kPatience = seconds(5);
/// The longest sleep of the receiver. After a sleep, the receiver notices the end of the test.
constexpr Duration kGlance = milliseconds(5);

class Endpoint {
 public:
  static Result<std::unique_ptr<Endpoint>> open(fabric::OpenedFabric opened) {
    auto arena = opened.fabric->make_arena(kBlockBytes * kBlocks);
    if (!arena) return std::unexpected(arena.error());
    std::unique_ptr<Endpoint> endpoint(new Endpoint(std::move(opened), std::move(*arena)));
    auto region = endpoint->fabric().register_memory(endpoint->memory_.bytes());
    if (!region) return std::unexpected(region.error());
    endpoint->region_ = std::move(*region);
    auto queue_pair = endpoint->fabric().create_queue_pair({});
    if (!queue_pair) return std::unexpected(queue_pair.error());
    endpoint->queue_pair_ = std::move(*queue_pair);
    return endpoint;
  }

  Result<void> connect(const Endpoint& peer) {
    peer_address_ = peer.region_->remote_address();
    peer_key_ = peer.region_->remote_key();
    return queue_pair_->connect(peer.queue_pair_->local_blob());
  }

  fabric::FabricInfo info() const { return opened_.fabric->info(); }
  std::span<std::byte> memory() { return memory_.bytes(); }

  /// Receives until `stop` is set, and then closes the connection on this thread, because the port belongs to
  /// this thread. The memory is filled in the order in which the sender writes.
  void receive(const std::atomic<bool>& stop) {
    for (std::uint64_t i = 0; i < kBlocksInFlight; ++i) expect_another();
    while (!stop) {
      for (std::size_t arrived = turn(); arrived > 0 && !broken_; --arrived) expect_another();
    }
    queue_pair_.reset();
  }

  Result<std::uint64_t> send(Time end) {
    std::uint64_t begun = 0, done = 0;
    Time latest = monotonic_now();
    for (Time now = latest; now < end || done < begun; now = monotonic_now()) {
      for (; now < end && begun < done + kBlocksInFlight; ++begun) {
        const fabric::WriteRequest write{.work_id = begun,
                                         .bytes = block(begun),
                                         .remote_address = peer_address_ + begun % kBlocks * kBlockBytes,
                                         .remote_key = peer_key_,
                                         .immediate = 0};
        if (auto posted = queue_pair_->post_write(write); !posted) return std::unexpected(posted.error());
      }
      const std::size_t completed = turn();
      if (broken_) return fail(Errc::peer_failed, "the connection broke: " + queue_pair_->error_cause());
      if (completed > 0) latest = now;
      if (now - latest > kPatience) return fail(Errc::timed_out, "nothing arrived for 5 s");
      done += completed;
    }
    return done * kBlockBytes;
  }

 private:
  Endpoint(fabric::OpenedFabric opened, memory::Arena memory)
      : opened_(std::move(opened)), memory_(std::move(memory)) {}

  fabric::Fabric& fabric() { return *opened_.fabric; }
  std::span<std::byte> block(std::uint64_t index) {
    return memory().subspan(index % kBlocks * kBlockBytes, kBlockBytes);
  }

  void expect_another() {
    broken_ = broken_ || !queue_pair_->post_receive({.work_id = expected_, .bytes = {}});
    queue_pair_->expect_write(region_->remote_key(),
                              region_->remote_address() + expected_++ % kBlocks * kBlockBytes, kBlockBytes);
  }

  std::size_t turn() {
    const Time now = monotonic_now();
    if (fabric().progress(now) == 0) fabric().wait(std::min(fabric().next_deadline(), now + kGlance));
    std::array<fabric::Completion, 64> completions;
    const std::size_t count = queue_pair_->poll_completions(completions);
    for (const auto& completion : std::span(completions).first(count))
      broken_ = broken_ || completion.status != fabric::WorkStatus::success;
    return count;
  }

  fabric::OpenedFabric opened_;
  memory::Arena memory_;
  std::unique_ptr<fabric::MemoryRegion> region_;
  std::unique_ptr<fabric::QueuePair> queue_pair_;
  std::uint64_t peer_address_ = 0, expected_ = 0;
  RemoteKey peer_key_{};
  bool broken_ = false;
};

}  // namespace

Result<SelfTest> run_self_test(fabric::OpenedFabric sending, fabric::OpenedFabric receiving, Duration time) {
  auto receiver = Endpoint::open(std::move(receiving));
  if (!receiver) return std::unexpected(receiver.error());
  auto sender = Endpoint::open(std::move(sending));
  if (!sender) return std::unexpected(sender.error());
  if (auto connected = (*sender)->connect(**receiver); !connected) return std::unexpected(connected.error());
  if (auto connected = (*receiver)->connect(**sender); !connected) return std::unexpected(connected.error());
  for (std::size_t i = 0; i < kBlocks; ++i)
    std::ranges::fill((*sender)->memory().subspan(i * kBlockBytes, kBlockBytes),
                      static_cast<std::byte>(i + 1));

  std::atomic<bool> stop = false;
  Result<std::uint64_t> sent{};
  const Time start = monotonic_now();
  {
    std::jthread thread([&] { (*receiver)->receive(stop); });
    sent = (*sender)->send(start + time);
    stop = true;
  }
  if (!sent) return std::unexpected(sent.error());
  const double took = 1e-9 * static_cast<double>((monotonic_now() - start).ns);
  const std::size_t filled = std::min<std::size_t>(*sent, (*sender)->memory().size());
  if (!std::ranges::equal((*sender)->memory().first(filled), (*receiver)->memory().first(filled)))
    return fail(Errc::corrupt, "what arrived is not what was sent");
  const auto info = (*sender)->info();
  return SelfTest{.seconds = took, .bytes = *sent, .path_mtu = info.path_mtu, .icrc = info.icrc};
}

}  // namespace rdmc::tools
