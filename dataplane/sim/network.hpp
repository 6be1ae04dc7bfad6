// The network of a simulation: hosts on full-duplex links to a switch, in racks that may share an uplink,
// carrying UDP datagrams that are lost, doubled, overtaken, damaged or held back as asked, and partitions
// that may be one way. It knows sockets, not protocols. It owns every datagram's bytes until their receiver
// releases them. One thread.
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

/// Names a datagram that the network holds.
enum class DatagramId : std::uint32_t {};

/// What a datagram occupies on a wire beyond its payload: UDP 8, IPv4 20, Ethernet with preamble and gap 38.
inline constexpr std::uint32_t kDatagramOverhead = 66;

struct HostOptions {
  LinkOptions link;  ///< to the switch and, the same, back
  RackId rack{0};
  std::optional<Address> address;  ///< default: 10.0.0.1 for the first host, counting up; the port is ignored
  Duration loopback = microseconds(5);  ///< from a process to another of the same host, at no rate
};

struct Datagram {
  Address source, destination;
  bool ecn_capable = false;
  bool congestion_experienced = false;

  std::span<std::byte> bytes() { return {memory.get(), size}; }

  // The network's own.
  HostId from{}, to{};
  std::uint8_t hop = 0;
  std::uint32_t size = 0, capacity = 0;
  std::uint64_t digest = 0;
  std::unique_ptr<std::byte[]> memory;
};

/// A UDP socket. Takes over the datagram: it gives it back with Network::release.
class Socket {
 public:
  virtual ~Socket() = default;
  virtual void deliver(DatagramId datagram) = 0;
};

struct NetworkCounters {
  std::uint64_t sent = 0, delivered = 0;
  std::uint64_t unreachable = 0;  ///< nobody bound to the port, or its process is dead
  std::uint64_t marked = 0;
};

class Network : private EventTarget {
 public:
  /// `simulation` outlives the network.
  explicit Network(Simulation& simulation);

  Simulation& simulation() { return simulation_; }

  /// A rack whose hosts reach others over one uplink; rack 0 is there already and has none: its hosts sit on
  /// the core.
  RackId add_rack(const LinkOptions& uplink);
  HostId add_host(const HostOptions& options);
  std::size_t hosts() const { return hosts_.size(); }
  /// The host's address, port 0.
  const Address& address(HostId host) const { return hosts_[value_of(host)].address; }

  /// False: the port is taken by a living process.
  bool bind(ProcessId owner, std::uint16_t port, Socket& socket);
  /// Binds the next free port from 49152 on.
  std::uint16_t bind_any(ProcessId owner, Socket& socket);
  /// Nothing if somebody else has taken the port over.
  void unbind(ProcessId owner, std::uint16_t port, const Socket& socket);

  /// A datagram to fill and send; `size` bytes, unspecified.
  DatagramId allocate(std::uint32_t size);
  Datagram& operator[](DatagramId id) { return pool_[value_of(id)]; }
  void release(DatagramId id) { free_.push_back(id); }
  /// Releases a delivered datagram that found the receiver's buffer full.
  void drop_received(DatagramId id) { drop(id, Fault::receive_full); }
  /// Sends from `from`; the network has it from here on.
  void send(HostId from, DatagramId id);

  /// Bytes waiting to leave the host.
  std::uint64_t send_backlog(HostId host) const;
  /// That have come to the host over its link, with what they occupy on it.
  std::uint64_t received_bytes(HostId host) const;
  /// A turn for the process when at most so many bytes wait to leave its host.
  void wake_when_drained(ProcessId process, std::uint64_t bytes);

  void set_faults(const FaultRates& rates) { rates_ = rates; }
  /// One way: nothing sent from `from` reaches `to` any more. What is under way already still arrives.
  void block(HostId from, HostId to) { blocked_.emplace(from, to); }
  void unblock(HostId from, HostId to) { blocked_.erase({from, to}); }
  /// Both ways with everybody: the host has fallen silent.
  void isolate(HostId host) { isolated_.insert(host); }
  void rejoin(HostId host) { isolated_.erase(host); }
  bool reaches(HostId from, HostId to) const {
    return (blocked_.empty() || !blocked_.contains({from, to})) &&
           (isolated_.empty() || from == to || !(isolated_.contains(from) || isolated_.contains(to)));
  }
  /// What a byte needs from one host to another, without queues and transmission.
  Duration delay(HostId from, HostId to) const;

  const NetworkCounters& counters() const { return counters_; }

 private:
  struct Binding {
    Socket* socket = nullptr;
    ProcessId owner{};
  };
  enum class WireId : std::uint32_t {};
  /// A link and what is on it, in the order of arrival: only the first of them is in the event heap, which
  /// stays small and fast however much is under way.
  struct Wire {
    explicit Wire(const LinkOptions& options) : link(options), delay(options.delay) {}
    struct UnderWay {
      Time arrival;
      DatagramId id;
    };
    Link link;
    Duration delay;
    std::uint64_t bytes = 0;  // that have passed
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
  std::unordered_map<Address, HostId, AddressHash> by_address_;  // looked up, never iterated
  std::deque<Datagram> pool_;
  std::vector<DatagramId> free_;
  FaultRates rates_;
  std::set<std::pair<HostId, HostId>> blocked_;
  std::set<HostId> isolated_;
  NetworkCounters counters_;
};

}  // namespace rdmc::sim
