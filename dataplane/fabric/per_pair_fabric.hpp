// Chooses the provider for each pair of members: shared memory if both members are on one host, otherwise
// another provider. The user of this class sees one fabric, with one registration and one key for each
// region, and one engine that sleeps. So a group can have members on this host and on other hosts. Owned and
// used by one thread, like every fabric.
#pragma once

#include <memory>

#include "dataplane/fabric/queue_pair.hpp"
#include "dataplane/fabric/shm/shm_fabric.hpp"

namespace rdmc::fabric {

class PerPairFabric final : public Fabric {
 public:
  /// Opens shared memory and combines it with `remote`, which is moved into the result. Errors: those of
  /// ShmFabric::open. After an error, `remote` keeps its value.
  static Result<std::unique_ptr<PerPairFabric>> open(ShmFabricOptions local, std::unique_ptr<Fabric>& remote);

  FabricInfo info() const override;
  Result<std::unique_ptr<QueuePair>> create_queue_pair(const QueuePairOptions& options) override;
  Result<std::unique_ptr<MemoryRegion>> register_memory(std::span<std::byte> memory,
                                                        MemoryUse use = MemoryUse::general,
                                                        RemoteAccess access = RemoteAccess::write) override;
  Result<memory::Arena> make_arena(std::size_t bytes, memory::Touch touch = memory::Touch::now) override {
    return local_->make_arena(bytes, touch);
  }

  std::size_t progress(Time now) override;
  Time next_deadline() const override;
  void pause() override;
  void wait(Time deadline) override;
  void wake() noexcept override;
  Result<std::vector<int>> wait_descriptors() override { return remote_->wait_descriptors(); }
  Time prepare_wait(Time deadline) override;
  void finish_wait() override;
  std::uint64_t bytes_copied() const override { return local_->bytes_copied() + remote_->bytes_copied(); }

 private:
  class Pair;
  class Region;

  PerPairFabric(std::unique_ptr<ShmFabric> local, std::unique_ptr<Fabric> remote)
      : remote_(std::move(remote)), local_(std::move(local)) {}

  Time latest_sleep() const;

  std::unique_ptr<Fabric> remote_;
  // Destroyed before remote_, because a thread of local_ wakes remote_.
  std::unique_ptr<ShmFabric> local_;
  std::uint32_t local_pairs_ = 0;   // The number of queue pairs that chose local_.
  std::uint32_t remote_pairs_ = 0;  // The number of queue pairs that chose remote_ or have not chosen yet.
};

}  // namespace rdmc::fabric
