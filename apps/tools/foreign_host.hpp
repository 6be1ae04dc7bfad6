// An endpoint that communicates with a foreign endpoint. It has a fabric that receives on RoCE's own UDP port
// number, to which foreign endpoints send, and an engine that drives the fabric. The thread that made a
// ForeignHost owns and drives it. It is not shared.
#pragma once

#include <functional>
#include <memory>

#include "apps/tools/foreign_options.hpp"
#include "controlplane/auth/random.hpp"
#include "dataplane/engine/engine.hpp"
#include "dataplane/fabric/connection_blob.hpp"
#include "dataplane/fabric/fabric_poller.hpp"
#include "dataplane/fabric/standard_fabrics.hpp"

namespace rdmc::tools {

/// Counters of packets. The report of every run contains them. If the fabric is a NIC, all of them are 0.
struct WireCounters {
  roce::ConnectionCounters connections;
  std::uint64_t corrupt_packets = 0;  ///< Packets that were dropped because of a wrong ICRC.
  /// Packets that were dropped because the queue pair does not exist, or because the sender is not its peer.
  std::uint64_t stray_packets = 0;
};

class ForeignHost {
 public:
  /// Opens a fabric. `address` is the address of this host at which the peer reaches it. The port number of
  /// `address` is ignored. `options` names the fabric and its device. Errors: those of fabric::open_fabric.
  /// The error already_exists means that another process or device uses UDP port 4791.
  static Result<std::unique_ptr<ForeignHost>> open(Address address, const ForeignOptions& options);

  fabric::Fabric& fabric() { return *opened_.fabric; }
  /// Returns nullptr if the fabric is a NIC.
  fabric::SoftwareFabric* software() { return opened_.software; }
  /// Returns the port of the software endpoint. Precondition: software() is not nullptr.
  const port::Port& port() const { return *opened_.port; }
  /// Returns the counters up to now.
  WireCounters wire() const;
  std::uint8_t traffic_class() const { return traffic_class_; }
  const std::string& fabric_name() const { return opened_.name; }
  engine::Engine& engine() { return *engine_; }
  const control::SystemRandom& random() const { return random_; }

  /// A queue pair in standard mode, and the information about it for the peer.
  struct End {
    std::unique_ptr<fabric::QueuePair> queue_pair;
    fabric::ConnectionInfo info;
  };
  /// Makes a queue pair. `reads_at_once` is the largest number of rd_atomics in flight in each direction.
  /// Errors: unsupported if the interface does not carry this path MTU, and those of create_queue_pair.
  Result<End> create(std::uint32_t path_mtu, std::uint32_t receive_depth, std::uint8_t reads_at_once = 1);
  /// The information that the peer gave about its queue pair.
  struct Peer {
    Address address;  ///< The peer's address, whose port number is ignored.
    Qpn qpn{};
    Psn first_psn;
    bool psn_for_other = false;  ///< See fabric::ConnectionInfo.
    /// The number of rd_atomics that the peer accepts at once from this side. 0 if it is not known.
    std::uint8_t reads_at_once = 0;
  };
  /// Connects the queue pair to the peer. Errors: unsupported if the peer has the other address family.
  static Result<void> connect(End& end, const Peer& peer);

  /// Runs the engine until `done()` returns true. Returns false if `deadline` passes before that.
  bool run_until(const std::function<bool()>& done, Time deadline);

 private:
  ForeignHost(control::SystemRandom random, const ForeignOptions& options)
      : random_(random), patience_(options.patience), traffic_class_(port::traffic_class_of(options.dscp)) {}

  control::SystemRandom random_;
  Duration patience_;
  std::uint8_t traffic_class_;
  fabric::OpenedFabric opened_;
  std::unique_ptr<fabric::FabricPoller> poller_;
  std::unique_ptr<engine::Engine> engine_;
};

}  // namespace rdmc::tools
