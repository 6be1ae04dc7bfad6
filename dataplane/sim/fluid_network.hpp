// The network of a simulation that is too large for packets. Hosts send whole transfers to each other.
// Transfers flow at max-min fair rates through the links that they share: the receiver's link and the uplinks
// of the racks. A host sends one transfer at a time, at the rate of its link or of the path, whichever is
// lower. It sends in the order in which the transfers were given to it, with one exception. A transfer to a
// host waits while another transfer to the same host is in flight. In the software fabric, a closed
// congestion window has the same effect (docs/decisions/0022). If transfers compete for a link that comes
// after the sender's own link, they wait in the network. There are no headers and no losses. The network
// knows no protocol: for the network, a transfer is a number. Only one thread may use it.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "dataplane/sim/fluid_rates.hpp"
#include "dataplane/sim/simulation.hpp"
#include "dataplane/sim/slots.hpp"

namespace rdmc::sim {

struct FluidOptions {
  Duration delay = microseconds(5);  ///< the time between the departure of the last byte and its arrival
  /// A random time up to this value, with a uniform distribution, is added to the delay. Transfers between
  /// the same two hosts stay in order.
  Duration jitter{};
};

/// The object that receives the transfers to a host.
class FluidEndpoint {
 public:
  virtual ~FluidEndpoint() = default;
  virtual void on_arrival(HostId from, std::uint64_t tag) = 0;
};

class FluidNetwork : private EventTarget {
 public:
  /// `simulation` must outlive the network.
  FluidNetwork(Simulation& simulation, const FluidOptions& options);

  /// Adds a rack whose hosts reach other racks over one uplink. `uplink` is its rate in bits per second, in
  /// each direction. Rack 0 exists from the beginning and has no uplink.
  RackId add_rack(std::uint64_t uplink);
  /// Adds a host whose link has this rate in each direction. The endpoint must outlive every use of the
  /// network.
  HostId add_host(std::uint64_t bits_per_second, RackId rack, FluidEndpoint& endpoint);
  /// Limits the rate between two hosts, in each direction. Must be called before their first transfer.
  void limit_path(HostId a, HostId b, std::uint64_t bits_per_second);

  /// Queues a transfer. The receiver gets `tag` when the last byte arrives.
  void send(HostId from, HostId to, std::uint64_t bytes, std::uint64_t tag);
  /// Sends a signal, such as an acknowledgement. It takes no capacity of a link, and it does not wait in a
  /// queue.
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
    bool is_busy = false;  ///< a flow is in flight on this path
    Time last_arrival{};
  };
  struct Host {
    FluidEndpoint* endpoint;
    double rate;  ///< in bytes per nanosecond
    RackId rack;
    LinkId ingress;
    bool is_sending = false;
    std::deque<Queued> queue{};
    std::vector<Path> paths{};
  };
  /// A transfer that has started to leave its host and has not passed the network completely.
  struct Flow {
    HostId from{}, to{};
    std::uint64_t tag = 0;
    double left = 0;     ///< the remaining bytes at `since`
    double flowing = 0;  ///< the rate of this flow since `since`
    Time since{};
    /// The number of the latest event for the flow's end; earlier events for it are ignored.
    std::uint32_t plan = 0;
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
