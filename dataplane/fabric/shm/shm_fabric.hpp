// The shm provider: queue pairs between processes of one host, through shared memory. Requests go through
// ring buffers, in order. The receiver pulls the payload directly to where it belongs: with one copy, and
// without a system call while both sides run. An engine with nothing to do sleeps on a futex (Doorbell).
// During this sleep, a thread of the fabric waits on the sockets, to notice peers that connect or end. One
// thread owns the fabric and everything made from it. The fabric must outlive its queue pairs and memory
// regions.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "dataplane/engine/core_offer.hpp"
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
  /// Returns unguessable numbers, as in SoftwareFabricOptions.
  std::function<std::uint32_t()> entropy;
  /// See host_identity(). If it is 0 (not known), open() fails.
  std::uint64_t host_id = 0;
  /// Called when a socket has an event, on any thread. Must wake an engine that sleeps in another fabric's
  /// wait(). Empty if the engine always sleeps in wait() of this fabric.
  std::function<void()> wake_elsewhere;
  /// True if the kernel may be used to copy payload between address spaces (process_vm_readv). This is done
  /// for payload that is in no arena, if the kernel permits it.
  bool read_processes = true;
};

/// Counts the bytes of payload by the method of the copy. The counts only grow.
struct ShmFabricCounters {
  std::uint64_t bytes_from_arenas = 0;  ///< Bytes that this process copied once, from an arena of a peer.
  std::uint64_t bytes_from_processes =
      0;                           ///< Bytes that the kernel copied once, from a peer's address space.
  std::uint64_t bytes_copied = 0;  ///< All bytes that this process copied, including bytes_from_arenas.
  std::uint64_t sleeps = 0,
                rings = 0;  ///< How often this side went to sleep, and how often it woke a sleeping peer.
};

class ShmFabric final : public Fabric {
 public:
  /// Opens a fabric. Errors: unsupported (no host identity; a kernel without sealed memory), resource_limit.
  static Result<std::unique_ptr<ShmFabric>> open(ShmFabricOptions options);
  ~ShmFabric() override;

  FabricInfo info() const override;
  Result<std::unique_ptr<QueuePair>> create_queue_pair(const QueuePairOptions& options) override;
  Result<std::unique_ptr<MemoryRegion>> register_memory(std::span<std::byte> memory,
                                                        MemoryUse use = MemoryUse::general,
                                                        RemoteAccess access = RemoteAccess::write) override;
  /// Registers the memory with the key and the address that another provider of this process chose for it.
  /// Errors: already_exists.
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

  /// Announces to the peers that the engine is about to sleep, here or in another fabric. Returns false if
  /// there is something to do. In both cases, the caller must call end_sleep() afterwards.
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
  /// Registers memory. `holder` is the only connection that may use the key; KeyHolder::anyone permits all
  /// connections.
  Result<std::unique_ptr<MemoryRegion>> add_region(RemoteKey key, std::uint64_t remote_address,
                                                   std::span<std::byte> memory, RemoteAccess access,
                                                   KeyHolder holder);
  Result<std::unique_ptr<MemoryRegion>> register_for(KeyHolder holder, std::span<std::byte> memory,
                                                     RemoteAccess access);
  void ring_all();
  std::size_t serve_sockets(Time now);
  void accept_connections(Time now);
  void drop_silent_connections(Time now);
  void on_pending_connection(std::uint64_t tag);
  bool has_news() const;

  ShmFabricOptions options_;
  shm::Doorbell doorbell_;
  shm::Token name_;
  shm::LocalListener listener_;
  std::unique_ptr<shm::SocketWatch> watch_;
  roce::RegionTable regions_;
  shm::LocalArenas arenas_;
  std::vector<ShmQueuePair*> queue_pairs_;  // All queue pairs, in the order of their serials.
  struct PendingConnection {
    shm::LocalSocket socket;
    Time came{};
  };
  // Connections whose hello has not arrived, in the order of their arrival.
  std::map<std::uint64_t, PendingConnection> pending_connections_;
  std::uint64_t next_serial_ = 1;
  // True if the watch has found a socket with an event.
  std::atomic<bool> attention_{false};
  std::atomic<bool> woken_{false};
  // How this process sleeps. Unlike the doorbell's word, it is written only by this process.
  std::atomic<shm::Sleep> sleeping_{shm::Sleep::awake};
  Descriptor own_wake_;  // An eventfd; empty until wait_descriptors() is called.
  // The number of the descriptor own_wake_, which any thread may read here. -1 if own_wake_ is empty.
  std::atomic<int> watched_wake_{-1};
  std::int64_t idle_turns_ = 0;  // The number of turns without work since the last turn with work.
  // The unit of this object is turns without work. If this process has the core to itself, an answer usually
  // arrives within 32 turns.
  engine::CoreOffer core_offer_{32};
  ShmFabricCounters counters_;  // Includes the counts of destroyed queue pairs.
};

}  // namespace rdmc::fabric
