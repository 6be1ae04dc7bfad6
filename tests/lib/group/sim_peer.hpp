// A simulated process that has connections and groups. It has the same parts as a real process: a port, the
// software fabric above the port, and the link table. The port is on the simulated network. Only time,
// packets and randomness come from the simulation.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "dataplane/fabric/software_fabric.hpp"
#include "dataplane/port/sim_port.hpp"
#include "dataplane/sim/network.hpp"
#include "dataplane/sim/simulation.hpp"
#include "lib/group/peers.hpp"

namespace rdmc::group {

class SimPeer : public sim::Process {
 public:
  SimPeer(sim::Network& network, const port::SimPortOptions& port_options, const PeersConfig& peers)
      : SimPeer(network, port_options, peers, network.add_host({})) {}
  /// The process runs on `host`, which may also have other processes. Its peers learn the host id.
  SimPeer(sim::Network& network, const port::SimPortOptions& port_options, const PeersConfig& peers,
          sim::HostId host)
      : simulation_(network.simulation()),
        process_(simulation_.add_process(host, *this)),
        random_(simulation_.random().next()),
        port_(network, process_, port_options),
        fabric_(port_, {.entropy = [this] { return static_cast<std::uint32_t>(random_.next()); }}),
        peers_(fabric_, telling(peers, host)) {}

  void run(Time now) override {
    // This is one turn of the engine, without waiting.
    fabric_.progress(now);
    peers_.work(now);
    fabric_.progress(now);
  }
  Time next_deadline() override { return std::min(fabric_.next_deadline(), peers_.next_deadline()); }

  fabric::SoftwareFabric& fabric() { return fabric_; }
  Peers& peers() { return peers_; }
  sim::ProcessId process() const { return process_; }
  void wake() { simulation_.wake(process_); }
  std::uint64_t datagrams_sent() const { return port_.counters().datagrams_sent; }

 private:
  static PeersConfig telling(PeersConfig config, sim::HostId host) {
    config.link.host = value_of(host) + 1;
    return config;
  }

  sim::Simulation& simulation_;
  sim::ProcessId process_;
  Random random_;
  port::SimPort port_;
  fabric::SoftwareFabric fabric_;
  Peers peers_;
};

/// Returns the peers 0 to count - 1, in this order.
inline std::vector<PeerId> first_peers(std::size_t count) {
  std::vector<PeerId> peers;
  for (std::size_t i = 0; i < count; ++i) peers.push_back(PeerId{static_cast<std::uint32_t>(i)});
  return peers;
}

/// Connects `a` and `b`. `a` is the peer `id_a` for `b`, and `b` is the peer `id_b` for `a`.
inline bool connect(SimPeer& a, PeerId id_a, SimPeer& b, PeerId id_b) {
  const auto from_a = a.peers().offer(id_b), from_b = b.peers().offer(id_a);
  return from_a && from_b && a.peers().connect(id_b, *from_b) && b.peers().connect(id_a, *from_a);
}

}  // namespace rdmc::group
