// The network of a simulation. Hosts have full-duplex links to a switch. The hosts of a rack may share an
// uplink. The network carries UDP datagrams. On request it loses, duplicates, reorders, corrupts or delays
// them, and it makes partitions, which may block one direction only. It has sockets, and it implements no
// protocol above UDP. It owns the bytes of each datagram until the receiver releases them. Only one thread
// may use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dataplane/base/address.hpp"
#include "dataplane/sim/faults.hpp"
#include "dataplane/sim/link.hpp"
#include "dataplane/sim/simulation.hpp"

namespace rdmc::sim {

/// Identifies a datagram that the network holds.
enum class DatagramId : std::uint32_t {};

/// The bytes that a datagram takes on a wire in addition to its payload: 8 for UDP, 20 for IPv4, and 38 for
/// Ethernet with preamble and gap.
inline constexpr std::uint32_t kDatagramOverhead = 66;

struct HostOptions {
  LinkOptions link;  ///< the link to the switch; the link from the switch has the same properties
  RackId rack{0};
  /// By default the first host has 10.0.0.1, and the next hosts have the following addresses. The port number
  /// is ignored.
  std::optional<Address> address;
  /// The delay between two processes of this host. The rate between them is not limited.
  Duration loopback = microseconds(5);
};

struct Datagram {
  Address source, destination;
  bool ecn_capable = false;
  bool congestion_experienced = false;

  std::span<std::byte> bytes() { return {memory.get(), size}; }

  // Only the network may use the following members.
  HostId from{}, to{};
  std::uint8_t hop = 0;
  std::uint32_t size = 0, capacity = 0;
  std::uint64_t digest = 0;
  std::unique_ptr<std::byte[]> memory;
};

/// A UDP socket. deliver() gives the datagram to the socket, which must give it back with Network::release.
class Socket {
 public:
  virtual ~Socket() = default;
  virtual void deliver(DatagramId datagram) = 0;
};

struct NetworkCounters {
  std::uint64_t sent = 0, delivered = 0;
  std::uint64_t unreachable = 0;  ///< datagrams to a port number that no living process has bound
  std::uint64_t marked = 0;
};

class Network : private EventTarget {
 public:
  /// `simulation` must outlive the network.
  explicit Network(Simulation& simulation);

  Simulation& simulation() { return simulation_; }

  /// Adds a rack whose hosts reach other racks over one uplink. Rack 0 exists from the beginning. It has no
  /// uplink: its hosts are connected directly to the core.
  RackId add_rack(const LinkOptions& uplink);
  HostId add_host(const HostOptions& options);
  std::size_t hosts() const { return hosts_.size(); }
  /// The address of the host, with port number 0.
  const Address& address(HostId host) const { return hosts_[value_of(host)].address; }

  /// Binds `socket` to the port number `port`. Returns false if a living process has already bound this port
  /// number.
  bool bind(ProcessId owner, std::uint16_t port, Socket& socket);
  /// Binds `socket` to the next free port number from 49152 on, and returns this number.
  std::uint16_t bind_any(ProcessId owner, Socket& socket);
  /// Frees the port number. Has no effect if the port number belongs to another socket than `socket`.
  void unbind(ProcessId owner, std::uint16_t port, const Socket& socket);

  /// Returns a datagram of `size` unspecified bytes, which the caller fills and sends.
  DatagramId allocate(std::uint32_t size);
  Datagram& operator[](DatagramId id) { return pool_[value_of(id)]; }
  void release(DatagramId id) { free_.push_back(id); }
  /// Releases a delivered datagram because the receiver's buffer is full.
  void drop_received(DatagramId id) { drop(id, Fault::receive_full); }
  /// Sends a datagram from the host `from`. From then on the network owns the datagram.
  void send(HostId from, DatagramId id);

  /// The number of bytes that wait to leave the host.
  std::uint64_t send_backlog(HostId host) const;
  /// The number of bytes that have arrived at the host over its link, including the overhead on the wire.
  std::uint64_t received_bytes(HostId host) const;
  /// Gives the process a turn as soon as at most `bytes` bytes wait to leave its host.
  void wake_when_drained(ProcessId process, std::uint64_t bytes);

  void set_faults(const FaultRates& rates) { rates_ = rates; }
  /// Blocks one direction: datagrams sent from `from` no longer reach `to`. Datagrams in flight still
  /// arrive.
  void block(HostId from, HostId to) { blocked_.emplace(from, to); }
  void unblock(HostId from, HostId to) { blocked_.erase({from, to}); }
  /// Separates the host from all other hosts in both directions. To the other hosts it looks as if the host
  /// were silent.
  void isolate(HostId host) { isolated_.insert(host); }
  void rejoin(HostId host) { isolated_.erase(host); }
  bool reaches(HostId from, HostId to) const {
    return (blocked_.empty() || !blocked_.contains({from, to})) &&
           (isolated_.empty() || from == to || !(isolated_.contains(from) || isolated_.contains(to)));
  }
  /// The propagation delay between two hosts: the time that a byte needs, without the time in queues and
  /// without the time for its transmission.
  Duration delay(HostId from, HostId to) const;

  const NetworkCounters& counters() const { return counters_; }

 private:
  struct Binding {
    Socket* socket = nullptr;
    ProcessId owner{};
  };
  enum class WireId : std::uint32_t {};
  /// A link and the datagrams on it, in the order of arrival. Only the first of them is in the event heap.
  /// So the heap stays small and fast, however many datagrams are in flight.
  struct Wire {
    explicit Wire(const LinkOptions& options) : link(options), delay(options.delay) {}
    struct UnderWay {
      Time arrival;
      DatagramId id;
    };
    Link link;
    Duration delay;
    std::uint64_t bytes = 0;  // the bytes that have been sent over this wire
    std::deque<UnderWay> under_way;
  };
  struct Host {
    Address address;
    RackId rack;
    WireId egress, ingress;
    Duration loopback;
    std::map<std::uint16_t, Binding> ports;
    std::uint16_t next_port = 49152;
  };
  struct Rack {
    WireId up, down;
  };
  struct AddressHash {
    std::size_t operator()(const Address& address) const;
  };

  void on_event(std::uint64_t argument) override;
  void arrive(DatagramId id);
  void forward(DatagramId id);
  void deliver(DatagramId id);
  void drop(DatagramId id, Fault fault);
  void lose(DatagramId id, Fault fault);
  std::optional<Time> pass(WireId wire, DatagramId id);
  void put_on(WireId wire, Time arrival, DatagramId id);
  WireId add_wire(const LinkOptions& options);
  DatagramId copy_of(DatagramId id);
  Wire& wire(WireId id) { return wires_[value_of(id)]; }
  const Wire& wire(WireId id) const { return wires_[value_of(id)]; }
  Host& host(HostId id) { return hosts_[value_of(id)]; }
  const Host& host(HostId id) const { return hosts_[value_of(id)]; }

  Simulation& simulation_;
  Random random_;
  std::deque<Wire> wires_;
  std::vector<Host> hosts_;
  std::vector<Rack> racks_;
  std::unordered_map<Address, HostId, AddressHash> by_address_;  // only looked up, never iterated
  std::deque<Datagram> pool_;
  std::vector<DatagramId> free_;
  FaultRates rates_;
  std::set<std::pair<HostId, HostId>> blocked_;
  std::set<HostId> isolated_;
  NetworkCounters counters_;
};

}  // namespace rdmc::sim
