// A queue pair between two processes of one host. It connects the two cores to the memory that it shares with
// its peer, to the socket of the shm handshake, and to the methods of copying payload. The caller that
// created the queue pair owns it. The fabric finds it by its serial number until it is destroyed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "dataplane/fabric/local_peer.hpp"
#include "dataplane/fabric/queue_pair.hpp"
#include "dataplane/fabric/shm/doorbell.hpp"
#include "dataplane/fabric/shm/local_arenas.hpp"
#include "dataplane/fabric/shm/local_socket.hpp"
#include "dataplane/fabric/shm/requester.hpp"
#include "dataplane/fabric/shm/responder.hpp"
#include "dataplane/fabric/shm/shm_blob.hpp"

namespace rdmc::fabric {

class ShmFabric;

class ShmQueuePair final : public QueuePair, private LocalPeer, private shm::PayloadSource {
 public:
  /// `serial` identifies the queue pair in its fabric and is never used again. `memory` is its QueueMemory.
  ShmQueuePair(ShmFabric& fabric, const QueuePairOptions& options, const shm::ShmBlob& local,
               std::uint64_t serial, memory::SharedPages memory);
  ~ShmQueuePair() override;
  ShmQueuePair(const ShmQueuePair&) = delete;
  ShmQueuePair& operator=(const ShmQueuePair&) = delete;

  QueuePairState state() const noexcept override;
  std::string error_cause() const override { return cause_; }
  Result<void> post_send(const SendRequest& request) override;
  Result<void> post_write(const WriteRequest& request) override;
  Result<void> post_read(const ReadRequest& request) override;
  Result<void> post_atomic(const AtomicRequest& request) override;
  Result<void> post_receive(const ReceiveRequest& request) override;
  Result<std::unique_ptr<MemoryRegion>> register_memory(std::span<std::byte> memory,
                                                        RemoteAccess access) override;
  std::size_t poll_completions(std::span<Completion> out) override;
  LocalPeer* local_peer() noexcept override { return peer_memory_ ? this : nullptr; }
  ConnectionBlob local_blob() const override { return shm::encode(local_); }
  /// Has the errors of QueuePair::connect, and in addition: unsupported if the peer is on another host or
  /// belongs to another user, peer_failed if the peer's process is gone.
  Result<void> connect(std::span<const std::byte> peer_blob) override;

 private:
  friend class ShmFabric;

  bool redirect_write(RemoteKey key, std::span<std::byte> where) override {
    return !failed_ && responder_.redirect(key, where);
  }
  std::optional<MappingOffer> offer_mapping(std::span<const std::byte> bytes) override;
  Result<MappedMemory> map(const MappingOffer& offer, std::uint64_t bytes) override;
  bool share_pages(const memory::SharedPages& pages) override;
  std::optional<memory::SharedPages> take_shared_pages() override {
    return std::exchange(shared_pages_, std::nullopt);
  }
  std::shared_ptr<const PeerMemory> peer_memory() const override;

  // The fabric calls the following functions.
  std::size_t turn(Time now);
  /// Wakes the peer if the peer sleeps and now has something to do.
  void ring();
  bool has_news() const;
  Time next_deadline() const;
  /// Called when the socket has an event, or the peer's process has ended.
  void on_socket();
  /// Called when the peer has connected and sent its hello. In this case, the peer is the side that dials.
  void visit(shm::LocalSocket socket, shm::LocalSocket::Received hello);

  // Defined in shm_handshake.cpp.
  bool dials() const;
  Result<void> dial();
  void dial_again(Time now);
  Result<void> send_hello();
  Result<void> on_hello(shm::LocalSocket::Received& hello);
  Result<void> watch_socket();
  Result<void> read_socket(std::size_t most);
  Result<void> on_arena(shm::LocalSocket::Received& arena);
  Result<void> on_pages(shm::LocalSocket::Received& pages);
  Result<void> on_forget(const shm::Message& forget);
  bool send_arena(const shm::LocalArenas::Found& arena);
  void forget_arenas();
  std::optional<shm::LocalArenas::Found> named_arena(std::span<const std::byte> bytes);
  Result<std::shared_ptr<const memory::SharedPages>> peer_arena(std::uint32_t number);
  std::optional<shm::PayloadLocator> offer(std::span<const std::byte> bytes) override;
  Outcome pull(const shm::PayloadLocator& locator, std::uint64_t offset, std::span<std::byte> to,
               std::size_t extent) override;
  Outcome pull_from_arena(const shm::PayloadLocator& locator, std::uint64_t offset, std::span<std::byte> to,
                          std::size_t extent);
  Outcome pull_from_process(std::uint64_t address, std::span<std::byte> to);

  Result<void> check_room() const;
  Result<void> post(const shm::Work& work);
  const shm::QueueMemory& peers() const {
    return *reinterpret_cast<const shm::QueueMemory*>(peer_memory_->bytes().data());
  }
  void check_cores();
  void on_hang_up();
  Duration patience() const;
  Duration receive_patience() const;
  bool peer_waits_for_receive() const;
  void check_patience(Time now);
  void close(shm::Closed how);
  void fail(WorkStatus oldest, std::string cause);

  ShmFabric& fabric_;
  QueuePairOptions options_;
  shm::ShmBlob local_;
  std::uint64_t serial_;
  memory::SharedPages memory_;
  shm::QueueMemory& ours_;
  // A random number. The hello contains its address, so that the peer can find out whether it can read this
  // process's memory.
  std::uint64_t probe_;
  roce::FixedRing<Completion> done_;
  shm::Requester requester_;
  shm::Responder responder_;
  // The numbers of work requests and of receives that are posted and whose completions are not yet polled.
  std::uint32_t sends_held_ = 0, receives_held_ = 0;

  std::optional<shm::ShmBlob> peer_;
  shm::LocalSocket socket_;
  std::optional<shm::LocalSocket::Received> early_hello_;
  std::optional<memory::SharedPages> peer_memory_;
  // The pages that the peer has given and that were not taken yet.
  std::optional<memory::SharedPages> shared_pages_;
  std::optional<shm::Doorbell> peer_doorbell_;
  std::unordered_map<std::uint32_t, std::shared_ptr<const memory::SharedPages>> peer_arenas_;
  // The arenas that were sent to the peer, by number. The value is the count of published slots, up to and
  // including the last slot that named the arena.
  std::unordered_map<std::uint32_t, std::uint32_t> arenas_sent_;
  bool failed_ = false;
  std::string cause_;
  std::uint32_t told_handled_ = 0;  // The value of handled() for which the peer was last woken.
  bool ring_for_requests_ = false;

  bool peer_left_ = false;

  Time dial_at_ = Time::never();  // The time of the next attempt to dial.
  Time turned_at_{};

  // The state of check_patience(). At each check of the peer, the time since the previous check is added to
  // the times for which this side has waited.
  bool waits_ = false;
  Time looked_at_{};
  Duration waited_{}, silent_{};
  std::uint32_t handled_seen_ = 0, pulse_seen_ = 0;
};

}  // namespace rdmc::fabric
