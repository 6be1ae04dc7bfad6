// One endpoint for talking to a peer that is not ours: a fabric that receives on RoCE's own UDP port number,
// which strangers send to, and an engine that turns it. Not shared; owned and driven by the thread of the
// program that made it.
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

/// What went over the wire, in every run's report; of a NIC's queue pairs nothing is known.
struct WireCounters {
  roce::ConnectionCounters connections;
  std::uint64_t corrupt_packets = 0;  ///< dropped: wrong ICRC
  std::uint64_t stray_packets = 0;    ///< dropped: to a queue pair that there is not, or not from its peer
};

class ForeignHost {
 public:
  /// `address`: of this host, as the peer reaches it; its port is not used. The fabric and its device are as
  /// in `options`. Errors: those of fabric::open_fabric; already_exists means that somebody else has UDP port
  /// 4791.
  static Result<std::unique_ptr<ForeignHost>> open(Address address, const ForeignOptions& options);

  fabric::Fabric& fabric() { return *opened_.fabric; }
  /// nullptr: a NIC's.
  fabric::SoftwareFabric* software() { return opened_.software; }
  /// Of the software endpoint.
  const port::Port& port() const { return *opened_.port; }
  /// Up to now.
  WireCounters wire() const;
  std::uint8_t traffic_class() const { return traffic_class_; }
  const std::string& fabric_name() const { return opened_.name; }
  engine::Engine& engine() { return *engine_; }
  const control::SystemRandom& random() const { return random_; }

  /// A queue pair for a textbook peer, and what to tell the peer of it. `reads_at_once`: under way in each
  /// direction. Errors: unsupported (the interface
  /// carries no such path MTU), those of create_queue_pair.
  struct End {
    std::unique_ptr<fabric::QueuePair> queue_pair;
    fabric::ConnectionInfo info;
  };
  Result<End> create(std::uint32_t path_mtu, std::uint32_t receive_depth, std::uint8_t reads_at_once = 1);
  /// What was said of a peer's queue pair.
  struct Peer {
    Address address;  ///< its port is not looked at
    Qpn qpn{};
    Psn first_psn;
    bool psn_for_other = false;      ///< see fabric::ConnectionInfo
    std::uint8_t reads_at_once = 0;  ///< READs and atomics of ours that it has room for; 0 = not known
  };
  /// Errors: unsupported (the peer has the other address family).
  static Result<void> connect(End& end, const Peer& peer);

  /// Turns the engine until `done()` says so; false if `deadline` passed before.
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
