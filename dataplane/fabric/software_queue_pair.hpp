// A queue pair of the software fabric: one roce::Connection and the addresses it talks to. Owned by whoever
// created it; its fabric knows it by QPN and by slot until it is destroyed.
#pragma once

#include <optional>

#include "dataplane/fabric/connection_blob.hpp"
#include "dataplane/fabric/foreign_icrc.hpp"
#include "dataplane/fabric/software_fabric.hpp"
#include "dataplane/roce/connection.hpp"
#include "dataplane/roce/fixed_ring.hpp"

namespace rdmc::fabric {

/// How long the trains of a peer have been lately: the longest of the last sixteen. A landing is planned for
/// that many packets, and the next one behind them; planning for more would put every later packet of a burst
/// in a wrong place where trains fall apart on the way.
class TrainLength {
 public:
  static constexpr std::uint32_t kUnknown = UINT32_MAX;

  void saw(std::uint32_t packets) {
    longest_ = packets > longest_ ? packets : longest_;
    if (++trains_ < kTrains) return;
    longest_before_ = longest_;
    longest_ = trains_ = 0;
  }
  std::uint32_t expected() const { return longest_before_ > longest_ ? longest_before_ : longest_; }

 private:
  static constexpr std::uint32_t kTrains = 8;
  std::uint32_t longest_ = 0, longest_before_ = kUnknown, trains_ = 0;
};

class SoftwareQueuePair final : public QueuePair {
 public:
  SoftwareQueuePair(SoftwareFabric& fabric, const QueuePairOptions& options, ConnectionInfo local,
                    port::FlowId flow, DeadlineHeap::Slot slot, KeyHolder holder)
      : fabric_(fabric),
        options_(options),
        local_(local),
        flow_(flow),
        slot_(slot),
        holder_(holder),
        posted_(options.send_depth) {}
  ~SoftwareQueuePair() override { fabric_.forget(*this); }
  SoftwareQueuePair(const SoftwareQueuePair&) = delete;
  SoftwareQueuePair& operator=(const SoftwareQueuePair&) = delete;

  QueuePairState state() const noexcept override;
  std::string error_cause() const override;
  Result<void> post_send(const SendRequest& request) override;
  Result<void> post_write(const WriteRequest& request) override;
  Result<void> post_read(const ReadRequest& request) override;
  Result<void> post_atomic(const AtomicRequest& request) override;
  Result<void> post_receive(const ReceiveRequest& request) override;
  void expect_write(std::span<std::byte> where) override;
  Result<std::unique_ptr<MemoryRegion>> register_memory(std::span<std::byte> memory,
                                                        RemoteAccess access) override;
  std::size_t poll_completions(std::span<Completion> out) override;
  ConnectionBlob local_blob() const override { return encode(local_); }
  Result<void> connect(std::span<const std::byte> peer_blob) override;

 private:
  friend class SoftwareFabric;

  // What exists only once the peer is known.
  struct Connected {
    ConnectionInfo peer;
    std::uint32_t path_mtu;
    std::uint32_t packets_per_train;  // full X_WRITEs in the longest train that the port sends
    roce::Connection connection;
    TransmitPath transmit;
    Address peer_source;                         // its packets' source address and port
    roce::Icrc receive_bulk, receive_shared;     // from peer_source to our bulk and shared ports
    std::optional<ForeignIcrc> foreign;          // in their place when the peer is not one of ours, …
    std::optional<crypto::PacketOpener> opener;  // … and when packets are encrypted
  };

  Result<roce::Connection*> connection();
  Result<void> note_posted(Result<void> posted, std::span<const std::byte> bytes);

  /// What was posted and whose completion was not polled: the memory, and its place in the order in which the
  /// works of all queue pairs leave.
  struct Posted {
    std::span<const std::byte> bytes;
    std::uint64_t post_order = 0;
  };
  /// A work that has had so much of the link while others waited goes behind them: a long message does not
  /// shut out what is posted after it, and a block leaves whole.
  static constexpr std::size_t kTurnBytes = 1 << 20;

  /// Of the work that leaves next; of a READ's responses, of when they were asked for or last had a turn.
  std::uint64_t post_order() const;
  /// So many bytes of it have just left.
  void had_turn(std::size_t bytes);

  /// Packets of this work and of later ones, at most, are about to join the batch.
  void note_in_batch(std::uint64_t work);
  /// Drops from the batch what refers to the oldest work, whose memory becomes the caller's again.
  void drop_oldest_from_batch();

  SoftwareFabric& fabric_;
  QueuePairOptions options_;
  ConnectionInfo local_;
  port::FlowId flow_;        // of its bulk data, shared with others where there are many
  DeadlineHeap::Slot slot_;  // in the fabric's lists
  KeyHolder holder_;
  std::optional<Connected> connected_;
  roce::FixedRing<Posted> posted_;                 // by index: the connection's works
  std::uint64_t batch_filling_ = 0;                // of the batch that has packets of ours, …
  std::uint64_t first_in_batch_ = 0;               // … none of works before this one
  std::uint64_t ready_since_ = 0;                  // a place
  std::uint64_t in_turn_ = 0;                      // the work that
  std::size_t turn_bytes_ = 0;                     // so many bytes have left of
  std::vector<roce::ReceiveWork> early_receives_;  // posted before connect, as verbs allows (state INIT)
  bool answers_ = false;                           // in the fabric's list of those that may have answers
  bool ready_ = false;                             // in its ready heap
  bool touched_ = false;                           // in its touched list
  TrainLength train_length_;
  std::uint32_t planned_packets_ = 0;  // predicted for this burst's trains so far
};

}  // namespace rdmc::fabric
