// Chooses the provider for each pair of members: shared memory if both are on one host, another provider if
// not. For its user it is one fabric: one registration, one key, one engine that sleeps. So a group can have
// members of both kinds. Owned and used by one thread, like every fabric.
#pragma once

#include <memory>

#include "dataplane/fabric/queue_pair.hpp"
#include "dataplane/fabric/shm/shm_fabric.hpp"

namespace rdmc::fabric {

class PerPairFabric final : public Fabric {
 public:
  /// Errors: those of ShmFabric::open; then `remote` keeps its value.
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
  std::unique_ptr<ShmFabric> local_;  // Destroyed before remote_, because its thread wakes remote_.
  std::uint32_t local_pairs_ = 0;     // Queue pairs that chose local_.
  std::uint32_t remote_pairs_ = 0;    // Queue pairs that chose remote_ or have not chosen yet.
};

}  // namespace rdmc::fabric
