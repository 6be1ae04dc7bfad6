// A queue pair of the software fabric: one roce::Connection and the addresses it talks to. Owned by whoever
// created it; its fabric knows it by QPN and by flow until it is destroyed.
#pragma once

#include <optional>

#include "dataplane/fabric/connection_blob.hpp"
#include "dataplane/fabric/software_fabric.hpp"
#include "dataplane/roce/connection.hpp"
#include "dataplane/roce/fixed_ring.hpp"

namespace rdmc::fabric {

class SoftwareQueuePair final : public QueuePair {
 public:
  SoftwareQueuePair(SoftwareFabric& fabric, const QueuePairOptions& options, ConnectionInfo local,
                    port::FlowId flow)
      : fabric_(fabric), options_(options), local_(local), flow_(flow), posted_(options.send_depth) {}
  ~SoftwareQueuePair() override { fabric_.forget(*this); }
  SoftwareQueuePair(const SoftwareQueuePair&) = delete;
  SoftwareQueuePair& operator=(const SoftwareQueuePair&) = delete;

  QueuePairState state() const noexcept override;
  std::string error_cause() const override;
  Result<void> post_send(const SendRequest& request) override;
  Result<void> post_write(const WriteRequest& request) override;
  Result<void> post_receive(const ReceiveRequest& request) override;
  void expect_write(std::span<std::byte> where) override;
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
    Address peer_source;                      // its packets' source address and port
    roce::Icrc receive_bulk, receive_shared;  // from peer_source to our bulk and shared ports
  };

  Result<void> post(const roce::SendWork& work);

  SoftwareFabric& fabric_;
  QueuePairOptions options_;
  ConnectionInfo local_;
  port::FlowId flow_;
  std::optional<Connected> connected_;
  roce::FixedRing<std::span<const std::byte>> posted_;  // sends and writes whose completion was not polled
  std::vector<roce::ReceiveWork> early_receives_;       // posted before connect, as verbs allows (state INIT)
  bool ready_ = false;                                  // in the fabric's ready list
  bool touched_ = false;                                // in its touched list
  std::uint32_t planned_packets_ = 0;                   // predicted for this burst's trains so far
};

}  // namespace rdmc::fabric
