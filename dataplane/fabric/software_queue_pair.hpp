// A queue pair of the software fabric: one roce::Connection, and the addresses of both ends. The caller that
// created the queue pair owns it. The fabric finds it by its QPN and its slot until it is destroyed.
#pragma once

#include <optional>

#include "dataplane/fabric/connection_blob.hpp"
#include "dataplane/fabric/foreign_icrc.hpp"
#include "dataplane/fabric/software_fabric.hpp"
#include "dataplane/roce/connection.hpp"
#include "dataplane/roce/fixed_ring.hpp"

namespace rdmc::fabric {

/// The recent length of the peer's trains in packets: the longest of the last 8 to 16 trains. A scatter list
/// is planned for this number of packets. If a scatter list were longer, and the network split the trains,
/// every later packet of a burst would be received in a wrong place.
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
                    port::FlowId flow, TransmitScheduler::Slot slot, KeyHolder holder)
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
  void expect_write(RemoteKey key, std::uint64_t remote_address, std::uint32_t bytes) override;
  Result<std::unique_ptr<MemoryRegion>> register_memory(std::span<std::byte> memory,
                                                        RemoteAccess access) override;
  std::size_t poll_completions(std::span<Completion> out) override;
  ConnectionBlob local_blob() const override { return encode(local_); }
  Result<void> connect(std::span<const std::byte> peer_blob) override;

 private:
  friend class SoftwareFabric;

  // The part of the state that exists only after connect().
  struct Connected {
    ConnectionInfo peer;
    std::uint32_t path_mtu;
    std::uint32_t packets_per_train;  // Full X_WRITE packets in the longest train that the port sends.
    roce::Connection connection;
    TransmitPath transmit;
    Address peer_source;  // The source address and port of the peer's packets.
    // The Icrc objects for packets from peer_source to the local bulk and shared UDP ports.
    roce::Icrc receive_bulk, receive_shared;
    std::optional<ForeignIcrc> foreign;  // Used in place of the two roce::Icrc if the peer is foreign.
    std::optional<crypto::PacketOpener> opener;  // Used in place of the ICRC if packets are encrypted.
  };

  Result<roce::Connection*> connection();
  Result<void> note_posted(Result<void> posted, std::span<const std::byte> bytes);

  /// A work request that was posted and whose completion has not been polled: its memory, and its post order
  /// among the work requests of all queue pairs.
  struct Posted {
    std::span<const std::byte> bytes;
    std::uint64_t post_order = 0;
  };
  /// Returns the work request whose packets leave next. Returns null if nothing waits, or if only responses
  /// to the peer's READs wait.
  Posted* next_to_leave();

  /// Returns the number of packets that leave in this turn, at least 1 and at most `most`, if a work request
  /// with this post order waits at another queue pair. It is `most` if responses to the peer's READs wait,
  /// because they have no post order. See SoftwareFabric::kLeastBytesPerTurn.
  std::size_t packets_before(std::uint64_t post_order, std::size_t most) const;

  /// Called when packets of this work request, and perhaps of later ones, are about to be added to the batch.
  void note_in_batch(std::uint64_t work);
  /// Drops from the batch the packets that refer to the oldest work request. Called before the memory of that
  /// work request is returned to the caller.
  void drop_oldest_from_batch();

  SoftwareFabric& fabric_;
  QueuePairOptions options_;
  ConnectionInfo local_;
  // The flow for the bulk data of this queue pair. Several queue pairs may share a flow.
  port::FlowId flow_;
  TransmitScheduler::Slot slot_;  // The index of this queue pair in the fabric's lists.
  KeyHolder holder_;
  std::optional<Connected> connected_;
  roce::FixedRing<Posted> posted_;  // Indexed like the connection's work requests.
  // The value of TransmitBatch::filling() when this queue pair last added packets.
  std::uint64_t batch_filling_ = 0;
  // The earliest work request of this queue pair with packets in that filling of the batch.
  std::uint64_t first_in_batch_ = 0;
  std::vector<roce::ReceiveWork> early_receives_;
  bool touched_ = false;  // True if this queue pair is in SoftwareFabric::touched_.
  TrainLength train_length_;
  std::uint32_t planned_packets_ = 0;  // The number of packets predicted in this burst so far.
};

}  // namespace rdmc::fabric
