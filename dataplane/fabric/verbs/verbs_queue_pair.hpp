// A queue pair of an RDMA NIC. Work requests go to the device at once, or as soon as the queue pair can send.
// Completions of the device wait in this object until they are polled. connect() returns at once, while the
// kernel still looks for the peer. If the kernel does not find the peer, the connection fails. The caller
// that created the queue pair owns it. The fabric finds it by its number until it is destroyed.
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

/// IBTA's value for an unlimited number of RNR retries. check_patience() limits the time instead.
inline constexpr std::uint8_t kRnrRetryForEver = 7;

class VerbsQueuePair final : public QueuePair {
 public:
  /// SENDs and WRITEs up to this size are copied into the work request, if the device supports that.
  static constexpr std::uint32_t kInlineBytes = 64;
  struct Made {
    VerbsHandle<ibv_qp> handle;
    std::uint32_t serial = 0;        ///< Identifies the queue pair in its completions; never used again.
    std::uint32_t inline_bytes = 0;  ///< kInlineBytes, or 0 if the device does not support inline data.
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

  // The fabric calls the following functions for completions of the device.
  void on_work(const ibv_wc& completion);
  void on_receive(const ibv_wc& completion);
  /// Delivers the message in a slot. If no receive is posted for the message, keeps the slot and returns
  /// true. Otherwise returns false, and the slot is free again.
  bool on_shared_receive(const ibv_wc& completion, std::uint32_t slot);
  void finish_receive(const ibv_wc& completion);
  // Defined in verbs_connect.cpp.
  void check_introduction();
  void flush_unseen();
  /// Moves the queue pair to the error state. All posted work requests complete as flushed.
  void fail(std::string cause);
  /// Moves the queue pair to the error state if a work request has waited longer than the ACK timeouts and
  /// `rnr_patience` allow.
  void check_patience(Time now);

  VerbsFabric& fabric_;
  QueuePairOptions options_;
  ConnectionInfo local_;
  Made made_;
  bool connected_ = false, failed_ = false;
  std::string cause_;
  // The work requests that the device has or that wait for bring-up, oldest first.
  roce::FixedRing<Posted> posted_;
  // The receives that the device has. With a shared queue, the receives into which slots are copied.
  roce::FixedRing<Receive> receives_;
  roce::FixedRing<Completion> done_;
  // The numbers of work requests and of receives that are posted and whose completions are not yet polled.
  std::uint32_t sends_held_ = 0, receives_held_ = 0;
  // The time since which no posted work request has completed. Time::never() if check_patience() has not set
  // it yet.
  Time waiting_since_ = Time::never();
  // The memory for the old values of atomics: 16 bytes for each work request that may be outstanding. Made
  // when first needed.
  memory::Arena atomic_results_;
  LocalKeys::Lease atomic_lease_;
  struct Early {
    ibv_wc completion;
    std::uint32_t slot;
  };
  std::deque<Early> early_;  // Shared receives for which no receive is posted yet.
  // True if the device takes no more shared receives for this queue pair.
  bool drained_ = false;
  // The reason of a failure that this side has found. It becomes the status of the oldest work request that
  // completes as flushed.
  std::optional<WorkStatus> verdict_;
  struct Waiting {
    ibv_send_wr work;
    std::span<const std::byte> bytes;          // The payload in the caller's memory.
    std::array<std::byte, kInlineBytes> copy;  // A copy of the payload, if it is sent inline.
    bool may_inline;
  };
  // The newest work requests of posted_, which wait until the queue pair can send.
  std::deque<Waiting> waiting_;
  // The number of the newest work requests of posted_ that the device will not complete.
  std::uint32_t unseen_ = 0;
  std::string peer_;
  std::unique_ptr<BringUp> bring_up_;  // Null if no bring-up is in progress.
};

}  // namespace rdmc::fabric
