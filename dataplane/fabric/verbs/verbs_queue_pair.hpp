// A queue pair of an RDMA NIC behind our interface. What is posted goes to the device at once, or as soon as
// it is connected; what the device completed waits here until it is polled. Connecting returns at once: it
// takes as long as the kernel looks for the peer, and that it failed is told as that the connection did.
// Owned by whoever created it; its fabric finds it by number until it is destroyed.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "dataplane/fabric/connection_blob.hpp"
#include "dataplane/fabric/queue_pair.hpp"
#include "dataplane/fabric/verbs/bring_up.hpp"
#include "dataplane/fabric/verbs/local_keys.hpp"
#include "dataplane/fabric/verbs/verbs_handle.hpp"
#include "dataplane/memory/arena.hpp"
#include "dataplane/roce/fixed_ring.hpp"

namespace rdmc::fabric {

class VerbsFabric;

/// Of the IBTA's counts of RNR retries: check_patience() bounds it.
inline constexpr std::uint8_t kRnrRetryForEver = 7;

class VerbsQueuePair final : public QueuePair {
 public:
  /// Sends up to here travel in the work itself, where the device can.
  static constexpr std::uint32_t kInlineBytes = 64;
  struct Made {
    VerbsHandle<ibv_qp> handle;
    std::uint32_t serial = 0;        ///< names it in its completions; never used again
    std::uint32_t inline_bytes = 0;  ///< kInlineBytes or none
    bool shares_receives = false;
  };

  VerbsQueuePair(VerbsFabric& fabric, const QueuePairOptions& options, ConnectionInfo local, Made made);
  ~VerbsQueuePair() override;
  VerbsQueuePair(const VerbsQueuePair&) = delete;
  VerbsQueuePair& operator=(const VerbsQueuePair&) = delete;

  QueuePairState state() const noexcept override;
  std::string error_cause() const override { return cause_; }
  Result<void> post_send(const SendRequest& request) override;
  Result<void> post_write(const WriteRequest& request) override;
  Result<void> post_read(const ReadRequest& request) override;
  Result<void> post_atomic(const AtomicRequest& request) override;
  Result<void> post_receive(const ReceiveRequest& request) override;
  void expect_write(std::span<std::byte>) override {}  // a NIC puts it in place by itself
  std::size_t poll_completions(std::span<Completion> out) override;
  ConnectionBlob local_blob() const override { return encode(local_); }
  Result<void> connect(std::span<const std::byte> peer_blob) override;

 private:
  friend class VerbsFabric;

  struct Posted {
    std::uint64_t work_id = 0;
    WorkKind kind = WorkKind::send;
    LocalKeys::Lease lease;
    std::uint32_t bytes = 0;
  };
  struct Receive {
    std::uint64_t work_id = 0;
    std::span<std::byte> bytes;
    LocalKeys::Lease lease;
  };

  Result<void> check_room() const;
  Result<void> post(ibv_send_wr& work, Posted posted, std::span<const std::byte> bytes, bool may_inline);
  Result<void> to_device(ibv_send_wr& work, Posted& posted, std::span<const std::byte> bytes,
                         bool may_inline);
  Result<void> post_own_receive(const ReceiveRequest& request);
  Result<std::uint64_t*> atomic_result();
  void push_done(const Completion& completion);
  void to_error();
  void deliver(const ibv_wc& completion, std::uint32_t slot);
  void give_everything_back();

  // What the device says, brought by the fabric.
  void on_work(const ibv_wc& completion);
  void on_receive(const ibv_wc& completion);
  /// False: the slot has been read. True: it is kept until a receive is posted for it.
  bool on_shared_receive(const ibv_wc& completion, std::uint32_t slot);
  void finish_receive(const ibv_wc& completion);
  // verbs_connect.cpp
  void check_introduction();
  void flush_unseen();
  /// Brings the queue pair to the error state; everything posted comes back flushed.
  void fail(std::string cause);
  /// Gives up on a peer that lets works wait for longer than RC and `rnr_patience` allow.
  void check_patience(Time now);

  VerbsFabric& fabric_;
  QueuePairOptions options_;
  ConnectionInfo local_;
  Made made_;
  bool connected_ = false, failed_ = false;
  std::string cause_;
  roce::FixedRing<Posted> posted_;     // in the device, oldest first
  roce::FixedRing<Receive> receives_;  // the same; of a shared queue: which slots are copied to
  roce::FixedRing<Completion> done_;
  std::uint32_t sends_held_ = 0, receives_held_ = 0;  // posted and not yet polled
  Time waiting_since_ = Time::never();  // works are out and none has completed since; never: since now
  memory::Arena atomic_results_;        // made when first needed: 8 bytes for each work
  LocalKeys::Lease atomic_lease_;
  struct Early {
    ibv_wc completion;
    std::uint32_t slot;
  };
  std::deque<Early> early_;            // shared receives that nothing was posted for yet
  bool drained_ = false;               // takes no more shared receives
  std::optional<WorkStatus> verdict_;  // ours, of the oldest work that comes back flushed
  struct Waiting {
    ibv_send_wr work;
    std::span<const std::byte> bytes;          // where they are …
    std::array<std::byte, kInlineBytes> copy;  // … or were, if they travel in the work itself
    bool may_inline;
  };
  std::deque<Waiting> waiting_;  // the newest of posted_, until the queue pair can send
  std::uint32_t unseen_ = 0;     // the newest of posted_, which the device will not complete
  std::string peer_;
  std::unique_ptr<BringUp> bring_up_;  // under way
};

}  // namespace rdmc::fabric
