// The network of a simulation that is too large for packets: what hosts send each other are whole transfers,
// which flow at max-min fair rates through the links they share - their receiver's, and their racks' uplinks.
// A host sends one transfer at a time, at its link's or the path's rate and in the order in which they were
// handed over, but for those to a host to which one is still under way: these stand aside, as a closed window
// does in our software fabric (docs/decisions/0022). What meets another transfer behind the sender's link
// waits in the network. No headers, no loss. It knows no protocol: a transfer is a number to it. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "dataplane/sim/fluid_rates.hpp"
#include "dataplane/sim/simulation.hpp"
#include "dataplane/sim/slots.hpp"

namespace rdmc::sim {

struct FluidOptions {
  Duration delay = microseconds(5);  ///< from the last byte's leaving to its arrival
  Duration jitter{};                 ///< added, uniform up to this; each pair of hosts keeps its order
};

/// Where transfers to a host arrive.
class FluidEndpoint {
 public:
  virtual ~FluidEndpoint() = default;
  virtual void on_arrival(HostId from, std::uint64_t tag) = 0;
};

class FluidNetwork : private EventTarget {
 public:
  /// `simulation` outlives the network.
  FluidNetwork(Simulation& simulation, const FluidOptions& options);

  /// A rack whose hosts reach others over one uplink of so many bits per second each way. Rack 0 is there
  /// already and has none.
  RackId add_rack(std::uint64_t uplink);
  /// On a link of so many bits per second each way. The endpoint outlives the network's use.
  HostId add_host(std::uint64_t bits_per_second, RackId rack, FluidEndpoint& endpoint);
  /// No more than this between the two, each way; before their first transfer.
  void limit_path(HostId a, HostId b, std::uint64_t bits_per_second);

  /// Queues a transfer; `tag` arrives with its last byte.
  void send(HostId from, HostId to, std::uint64_t bytes, std::uint64_t tag);
  /// What needs no room on a link and waits for nothing: an acknowledgement.
  void signal(HostId from, HostId to, std::uint64_t tag);

 private:
  struct Queued {
    HostId to{};
    std::uint64_t bytes = 0;
    std::uint64_t tag = 0;
  };
  struct Path {
    HostId to{};
    double limit = 0;
    bool is_busy = false;  ///< a flow is under way
    Time last_arrival{};
  };
  struct Host {
    FluidEndpoint* endpoint;
    double rate;  ///< bytes per nanosecond
    RackId rack;
    LinkId ingress;
    bool is_sending = false;
    std::deque<Queued> queue{};
    std::vector<Path> paths{};
  };
  /// A transfer that has begun to leave and not yet come through.
  struct Flow {
    HostId from{}, to{};
    std::uint64_t tag = 0;
    double left = 0;     ///< bytes, at `since`
    double flowing = 0;  ///< its rate since then
    Time since{};
    std::uint32_t plan = 0;  ///< names the latest event of its end
  };
  struct Rack {
    LinkId up{}, down{};
  };
  struct Arrival {
    HostId from{}, to{};
    std::uint64_t tag = 0;
  };
  enum class Kind : std::uint64_t { left, through, arrived };

  void on_event(std::uint64_t argument) override;
  static std::uint64_t argument_of(Kind kind, std::size_t what, std::uint32_t plan = 0);
  void start_next(std::uint32_t host);
  void replan();
  void finish(std::uint32_t flow);
  void travel(HostId from, HostId to, std::uint64_t tag);
  void arrive(std::size_t index);
  Path& path(Host& from, HostId to);

  Simulation& simulation_;
  FluidOptions options_;
  Random random_;
  FluidRates rates_;
  std::vector<Host> hosts_;
  std::vector<Rack> racks_;
  std::uint32_t next_plan_ = 1;
  Slots<Flow> flows_;
  Slots<Arrival> arrivals_;
};

}  // namespace rdmc::sim
