// The shm provider: queue pairs between processes of one host, through memory that they share. Requests go
// through ordered rings; payload is pulled by whoever receives it, straight from where it lies into where it
// belongs: one copy, and no system call while both sides run. An engine with nothing to do sleeps on a futex
// (Doorbell); a thread of the fabric sleeps on its sockets meanwhile, to notice peers that come and go. One
// thread owns the fabric and everything made from it; it outlives its queue pairs and memory regions.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "dataplane/fabric/queue_pair.hpp"
#include "dataplane/fabric/shm/doorbell.hpp"
#include "dataplane/fabric/shm/local_arenas.hpp"
#include "dataplane/fabric/shm/local_socket.hpp"
#include "dataplane/fabric/shm/shm_blob.hpp"
#include "dataplane/fabric/shm/socket_watch.hpp"
#include "dataplane/roce/region_table.hpp"

namespace rdmc::fabric {

class ShmQueuePair;

struct ShmFabricOptions {
  /// As SoftwareFabricOptions: unguessable.
  std::function<std::uint32_t()> entropy;
  /// See host_identity(); 0: unknown, nobody is on this host.
  std::uint64_t host_id = 0;
  /// Wakes the engine where it does not sleep in wait() (begin_sleep), when the sockets have something; any
  /// thread. None: it always sleeps in wait().
  std::function<void()> wake_elsewhere;
  /// Let the kernel copy between address spaces (process_vm_readv) what lies in no arena, where it permits.
  bool read_processes = true;
};

/// By how their payload crossed; monotone.
struct ShmFabricCounters {
  std::uint64_t bytes_from_arenas = 0;     ///< one copy, ours
  std::uint64_t bytes_from_processes = 0;  ///< one copy, the kernel's
  std::uint64_t bytes_copied = 0;          ///< all copies by this process, those above included
  std::uint64_t sleeps = 0, rings = 0;     ///< system calls beside the kernel's copies
};

class ShmFabric final : public Fabric {
 public:
  /// Errors: unsupported (no host identity; a kernel without sealed memory), resource_limit.
  static Result<std::unique_ptr<ShmFabric>> open(ShmFabricOptions options);
  ~ShmFabric() override;

  FabricInfo info() const override;
  Result<std::unique_ptr<QueuePair>> create_queue_pair(const QueuePairOptions& options) override;
  Result<std::unique_ptr<MemoryRegion>> register_memory(std::span<std::byte> memory,
                                                        MemoryUse use = MemoryUse::general,
                                                        RemoteAccess access = RemoteAccess::write) override;
  /// The same under a key and an address that another provider of ours gave it. Errors: already_exists.
  Result<std::unique_ptr<MemoryRegion>> register_as(RemoteKey key, std::uint64_t remote_address,
                                                    std::span<std::byte> memory, RemoteAccess access);
  Result<memory::Arena> make_arena(std::size_t bytes, memory::Touch touch = memory::Touch::now) override;

  std::size_t progress(Time now) override;
  Time next_deadline() const override;
  void pause() override;
  void wait(Time deadline) override;
  void wake() noexcept override;
  Result<std::vector<int>> wait_descriptors() override;
  Time prepare_wait(Time deadline) override;
  void finish_wait() override { end_sleep(); }
  std::uint64_t bytes_copied() const override { return counters().bytes_copied; }

  /// For an engine that sleeps elsewhere: announces it to the peers. False: there is something to do. Then,
  /// and after the sleep, end_sleep().
  bool begin_sleep(shm::Sleep how);
  void end_sleep() {
    doorbell_.awake();
    sleeping_ = shm::Sleep::awake;
    woken_ = false;
  }

  ShmFabricCounters counters() const;

 private:
  friend class ShmQueuePair;
  class Region;

  ShmFabric(ShmFabricOptions options, shm::Doorbell doorbell, shm::Token name, shm::LocalListener listener)
      : options_(std::move(options)),
        doorbell_(std::move(doorbell)),
        name_(name),
        listener_(std::move(listener)) {}
  void forget(ShmQueuePair& queue_pair);
  /// `holder`: the connection that alone may use the key.
  Result<std::unique_ptr<MemoryRegion>> add_region(RemoteKey key, std::uint64_t remote_address,
                                                   std::span<std::byte> memory, RemoteAccess access,
                                                   KeyHolder holder);
  Result<std::unique_ptr<MemoryRegion>> register_for(KeyHolder holder, std::span<std::byte> memory,
                                                     RemoteAccess access);
  void ring_all();
  std::size_t serve_sockets(Time now);
  void take_visitors(Time now);
  void drop_silent_visitors(Time now);
  void on_visitor(std::uint64_t tag);
  bool has_news() const;

  ShmFabricOptions options_;
  shm::Doorbell doorbell_;
  shm::Token name_;
  shm::LocalListener listener_;
  std::unique_ptr<shm::SocketWatch> watch_;
  roce::RegionTable regions_;
  shm::LocalArenas arenas_;
  std::vector<ShmQueuePair*> queue_pairs_;  // in order of their serials
  struct PendingConnection {
    shm::LocalSocket socket;
    Time came{};
  };
  std::map<std::uint64_t, PendingConnection>
      pending_connections_;  // whose hello has not come, in the order they came
  std::uint64_t next_serial_ = 1;
  std::atomic<bool> attention_{false};  // the watch has noted something
  std::atomic<bool> woken_{false};
  std::atomic<shm::Sleep> sleeping_{shm::Sleep::awake};  // ours to say, unlike the doorbell's word
  Descriptor own_wake_;                                  // an eventfd, if anybody watches it
  std::atomic<int> watched_wake_{-1};                    // the same, for all threads
  std::uint32_t idle_turns_ = 0, turns_before_yield_ = 1;
  ShmFabricCounters counters_;  // of destroyed queue pairs, too
};

}  // namespace rdmc::fabric
