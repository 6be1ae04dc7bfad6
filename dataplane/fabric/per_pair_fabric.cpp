#include "dataplane/fabric/per_pair_fabric.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "dataplane/fabric/blob_offers.hpp"
#include "dataplane/fabric/shm/doorbell.hpp"
#include "dataplane/fabric/shm/shm_blob.hpp"

namespace rdmc::fabric {

/// A queue pair that chooses its provider. Until the peer is known, it has two queue pairs, one of each
/// provider. After that, it has only the queue pair that reaches the peer.
class PerPairFabric::Pair final : public QueuePair {
 public:
  Pair(PerPairFabric& fabric, std::size_t receive_depth, std::unique_ptr<QueuePair> local,
       std::unique_ptr<QueuePair> remote)
      : fabric_(fabric),
        receive_depth_(receive_depth),
        blob_(join_offers(local->local_blob(), remote->local_blob())),
        ours_(*shm::decode_shm_blob(local->local_blob())),
        local_(std::move(local)),
        remote_(std::move(remote)) {
    ++fabric_.remote_pairs_;
  }
  ~Pair() override { --(chosen_ != nullptr && local_ ? fabric_.local_pairs_ : fabric_.remote_pairs_); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  QueuePairState state() const noexcept override {
    return chosen_ == nullptr ? QueuePairState::reset : chosen_->state();
  }
  std::string error_cause() const override { return chosen_ == nullptr ? "" : chosen_->error_cause(); }
  Result<void> post_send(const SendRequest& request) override {
    return chosen_ == nullptr ? unconnected() : chosen_->post_send(request);
  }
  Result<void> post_write(const WriteRequest& request) override {
    return chosen_ == nullptr ? unconnected() : chosen_->post_write(request);
  }
  Result<void> post_read(const ReadRequest& request) override {
    return chosen_ == nullptr ? unconnected() : chosen_->post_read(request);
  }
  Result<void> post_atomic(const AtomicRequest& request) override {
    return chosen_ == nullptr ? unconnected() : chosen_->post_atomic(request);
  }
  Result<void> post_receive(const ReceiveRequest& request) override {
    if (chosen_ != nullptr) return chosen_->post_receive(request);
    if (early_receives_.size() == receive_depth_) return fail(Errc::would_block, "the receive queue is full");
    early_receives_.push_back(request);
    return {};
  }
  void expect_write(RemoteKey key, std::uint64_t remote_address, std::uint32_t bytes) override {
    if (chosen_ != nullptr) chosen_->expect_write(key, remote_address, bytes);
  }
  Result<std::unique_ptr<MemoryRegion>> register_memory(std::span<std::byte> memory,
                                                        RemoteAccess access) override {
    if (chosen_ == nullptr) return fail(Errc::invalid_argument, "the queue pair is not connected");
    return chosen_->register_memory(memory, access);
  }
  std::size_t poll_completions(std::span<Completion> out) override {
    return chosen_ == nullptr ? 0 : chosen_->poll_completions(out);
  }
  LocalPeer* local_peer() noexcept override { return chosen_ == nullptr ? nullptr : chosen_->local_peer(); }
  ConnectionBlob local_blob() const override { return blob_; }

  Result<void> connect(std::span<const std::byte> peer_blob) override {
    if (chosen_ != nullptr) return fail(Errc::invalid_argument, "the queue pair is connected already");
    const BlobOffers offers = split_offers(peer_blob);
    // A peer that uses only shared memory sends a blob with one offer. split_offers() returns such a blob as
    // `remote`.
    const auto local = shm::decode_shm_blob(offers.local.empty() ? offers.remote : offers.local);
    const bool together = local && local->host_id == ours_.host_id && local->user == ours_.user;
    if (auto connected = (together ? local_ : remote_)->connect(peer_blob); !connected) return connected;
    chosen_ = (together ? local_ : remote_).get();
    (together ? remote_ : local_).reset();
    if (together) {
      --fabric_.remote_pairs_;
      ++fabric_.local_pairs_;
    }
    for (const ReceiveRequest& receive : early_receives_)
      if (auto posted = chosen_->post_receive(receive); !posted) return posted;
    early_receives_ = {};
    return {};
  }

 private:
  static Result<void> unconnected() {
    return fail(Errc::invalid_argument, "the queue pair is not connected");
  }

  PerPairFabric& fabric_;
  std::size_t receive_depth_;
  ConnectionBlob blob_;
  shm::ShmBlob ours_;
  std::unique_ptr<QueuePair> local_, remote_;
  QueuePair* chosen_ = nullptr;
  std::vector<ReceiveRequest> early_receives_;
};

/// A region with one key and one address, which the remote provider chose.
class PerPairFabric::Region final : public MemoryRegion {
 public:
  Region(std::unique_ptr<MemoryRegion> local, std::unique_ptr<MemoryRegion> remote)
      : local_(std::move(local)), remote_(std::move(remote)) {}
  RemoteKey remote_key() const noexcept override { return remote_->remote_key(); }
  std::uint64_t remote_address() const noexcept override { return remote_->remote_address(); }

 private:
  std::unique_ptr<MemoryRegion> local_, remote_;
};

Result<std::unique_ptr<PerPairFabric>> PerPairFabric::open(ShmFabricOptions local,
                                                           std::unique_ptr<Fabric>& remote) {
  local.wake_elsewhere = [fabric = remote.get()] { fabric->wake(); };
  auto opened = ShmFabric::open(std::move(local));
  if (!opened) return std::unexpected(opened.error());
  return std::unique_ptr<PerPairFabric>(new PerPairFabric(std::move(*opened), std::move(remote)));
}

FabricInfo PerPairFabric::info() const {
  FabricInfo info = remote_->info();
  info.name = "shm+" + info.name;
  // Peers map the pages of arenas.
  info.pins_memory = true;
  if (local_pairs_ > 0 && remote_pairs_ == 0)
    info.carrier_copies_per_byte = local_->info().carrier_copies_per_byte;
  return info;
}

Result<std::unique_ptr<QueuePair>> PerPairFabric::create_queue_pair(const QueuePairOptions& options) {
  auto remote = remote_->create_queue_pair(options);
  if (!remote) return remote;
  auto local = local_->create_queue_pair(options);
  if (!local) return local;
  return std::make_unique<Pair>(*this, options.receive_depth, std::move(*local), std::move(*remote));
}

Result<std::unique_ptr<MemoryRegion>> PerPairFabric::register_memory(std::span<std::byte> memory,
                                                                     MemoryUse use, RemoteAccess access) {
  auto remote = remote_->register_memory(memory, use, access);
  if (!remote) return remote;
  auto local = local_->register_as((*remote)->remote_key(), (*remote)->remote_address(), memory, access);
  if (!local) return local;
  return std::make_unique<Region>(std::move(*local), std::move(*remote));
}

std::size_t PerPairFabric::progress(Time now) {
  return local_->progress(now) + remote_->progress(now);
}

Time PerPairFabric::next_deadline() const {
  return std::min(local_->next_deadline(), remote_->next_deadline());
}

void PerPairFabric::pause() {
  if (local_pairs_ > 0) local_->pause();
}

// If all peers are on this host, the engine sleeps on the futex, because a futex wakes it sooner. Otherwise
// it sleeps in the other provider. If some peers are on this host, it then sleeps no longer than a sleep on
// the futex may last. The reason is that one of these peers may have reset the doorbell's word and been
// stopped before it sent its wake-up message. The other peers then believe that this process is awake.
void PerPairFabric::wait(Time deadline) {
  if (remote_pairs_ == 0 && local_pairs_ > 0) return local_->wait(deadline);
  if (local_->begin_sleep(shm::Sleep::elsewhere)) remote_->wait(std::min(deadline, latest_sleep()));
  local_->end_sleep();
}

Time PerPairFabric::latest_sleep() const {
  return local_pairs_ == 0 ? Time::never() : monotonic_now() + shm::Doorbell::kLongestSleep;
}

Time PerPairFabric::prepare_wait(Time deadline) {
  if (!local_->begin_sleep(shm::Sleep::elsewhere)) return Time{};
  return remote_->prepare_wait(std::min(deadline, latest_sleep()));
}

void PerPairFabric::finish_wait() {
  remote_->finish_wait();
  local_->end_sleep();
}

void PerPairFabric::wake() noexcept {
  local_->wake();
  remote_->wake();
}

}  // namespace rdmc::fabric
