// DpdkPort, the Port on a DPDK device: UDP datagrams written and read as Ethernet frames, neighbours found
// and answered, flows told apart by their UDP port. Its bodies are split by what they do: port_open.cpp,
// port_transmit.cpp, port_receive.cpp, port_wait.cpp. It owns the device and every packet buffer; received
// bytes lie in those buffers until the next burst. One thread at a time.
//
// Landings are not planned: a frame's header can be read before its payload has to go anywhere, so the
// payload is copied once, from the packet buffer to where it belongs, by whoever receives the train.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/port/dpdk/device.hpp"
#include "dataplane/port/dpdk/frames.hpp"
#include "dataplane/port/dpdk/memif_gate.hpp"
#include "dataplane/port/dpdk/neighbours.hpp"
#include "dataplane/port/dpdk/steering.hpp"
#include "dataplane/port/piece_cutter.hpp"
#include "dataplane/port/port.hpp"
#include "dataplane/port/source_ports.hpp"
#include "dataplane/port/wake_event.hpp"

namespace rdmc::port::dpdk {

class DpdkPort final : public Port {
 public:
  /// Frames that go to or come from the device in one call.
  static constexpr std::uint16_t kBurst = 32;
  /// Payload below this is copied into the frame: cheaper than a further packet buffer to attach it to.
  static constexpr std::size_t kLeastAttached = 512;
  /// The share of the packet buffers that may hold datagrams whose neighbour is being looked for: a whole
  /// window, but for the largest frames. More are refused while the answer to the first request may come;
  /// then they are dropped, so that a host which is gone holds up nobody else.
  static constexpr std::uint32_t kHeldShare = 4;
  /// The clock is read, and timers run, once in so many bursts.
  static constexpr std::uint32_t kBurstsPerTick = 32;
  static constexpr std::size_t kPaths = 256;
  static constexpr std::size_t kKnown = 64;

  /// How often the link is looked at.
  static constexpr Duration kLinkCheckInterval = milliseconds(50);

  /// What of a request is the port's: a concrete address, and the byte of IP headers that has its DSCP.
  struct Sender {
    Address address;
    std::uint8_t traffic_class = 0;
  };
  /// `device` is started. `ports`: for its flows, from a random start.
  static Result<std::unique_ptr<Port>> open(std::unique_ptr<Device> device, const Sender& sender,
                                            const DpdkOptions& options, SourcePorts ports);
  ~DpdkPort() override;

  const PortInfo& info() const noexcept override { return info_; }
  Result<FlowId> open_flow() override;
  std::uint16_t udp_port(FlowId flow) const override { return flows_[value_of(flow)].udp_port; }
  void close_flow(FlowId flow) override;
  std::size_t send_burst(std::span<const TxTrain> trains) override;
  std::size_t receive_burst(ScatterPlanner& planner, std::span<RxTrain> out) override;
  void wait(Time deadline) override;
  void wake() noexcept override { wake_.set(); }
  Result<std::vector<int>> wait_descriptors() override { return std::vector{wake_.descriptor()}; }
  Time prepare_wait(Time deadline) override;
  const PortCounters& counters() const noexcept override { return counters_; }

 private:
  struct Flow {
    std::uint16_t udp_port = 0;  // 0: closed
    std::optional<SteeringRule> rule;
  };
  /// What a flow's datagrams to one destination begin with; good while nothing was learned since.
  struct Path {
    Address destination;
    FlowId source{};
    std::uint64_t generation = 0;
    Time looked_up{};
    std::optional<UdpHeaders> headers;  // none: the neighbour is being looked for …
    bool asked_once = false;            // … and may answer at any moment
  };
  /// Where datagrams came from lately, and how their frames begin.
  struct Known {
    UdpPattern pattern;
    Address source;
    std::uint16_t udp_port = 0;  // of ours
    bool congestion_experienced = false;
  };
  /// A datagram whose neighbour is being looked for: the payload alone, in a packet buffer.
  struct Held {
    rte_mbuf* payload;
    Address destination;
    FlowId source;
    bool ecn_capable;
  };
  /// Frames on their way to the device, and the train that each belongs to.
  struct Batch {
    std::array<rte_mbuf*, kBurst> frames;
    std::array<std::size_t, kBurst> train;
    std::uint16_t count = 0;
  };

  DpdkPort(std::unique_ptr<Device> device, const LinkAddress& ours, std::uint8_t traffic_class,
           SourcePorts ports);

  // port_open.cpp
  Result<void> start(const Address& address, const DpdkOptions& options);
  std::optional<std::uint16_t> free_udp_port();
  void watch_interrupts();
  void listen(FlowId id, std::uint16_t udp_port);

  // port_transmit.cpp
  enum class Outcome : std::uint8_t { made, done, no_room };
  bool send_train(const TxTrain& train, std::size_t index, Batch& batch, std::size_t& unsent);
  bool send_small(const TxTrain& train, const Path& path, std::size_t index, Batch& batch,
                  std::size_t& unsent);
  Outcome make_frame(const Path& path, bool ecn_capable, PieceCutter& payload, std::size_t bytes,
                     rte_mbuf*& frame);
  bool append(rte_mbuf*& first, rte_mbuf*& last, const iovec& piece);
  void attach(rte_mbuf& buffer, const iovec& piece);
  rte_mbuf* take_buffer();
  bool flush(Batch& batch, std::size_t& unsent);
  Path& path_to(const Address& destination, FlowId source);
  Outcome hold(const TxTrain& train, const Path& path, PieceCutter& payload, std::size_t bytes);
  bool send_held();
  Outcome send_held(const Held& held);
  void send_neighbour_messages();
  void send_now(rte_mbuf* frame);
  std::uint16_t to_device(rte_mbuf** frames, std::uint16_t count);
  bool link_is_lost() const { return counters_.link_losses != counters_.link_returns; }

  MemifGate* gate() { return gate_ ? &*gate_ : nullptr; }

  // port_receive.cpp
  void tick(Time now);
  void check_link();
  std::uint16_t take_burst(std::uint16_t at_most);
  bool accept(rte_mbuf& buffer, RxTrain& train, iovec& piece);
  bool deliver(const Known& from, std::uint16_t identification, std::span<std::byte> payload, RxTrain& train,
               iovec& piece);
  void release_received();

  // port_wait.cpp
  bool sleep_until_interrupt(Time until);
  void doze(Time until);
  void count_drops();

  std::unique_ptr<Device> device_;
  std::optional<MemifGate> gate_;  // of a memif
  PortInfo info_;
  PortCounters counters_;
  Neighbours neighbours_;
  std::optional<Steering> steering_;
  std::vector<Flow> flows_;                  // by FlowId
  std::vector<std::uint16_t> flow_of_port_;  // by UDP port: FlowId + 1; 0: nobody listens
  SourcePorts source_ports_;
  const std::uint8_t traffic_class_;
  std::vector<Path> paths_;   // by a hash of destination and source
  std::vector<Known> known_;  // by a hash of the UDP ports
  std::deque<Held> held_;
  std::uint64_t held_generation_ = 0;      // of the neighbours when held_ was last looked through to its end
  std::array<rte_mbuf*, kBurst> spare_{};  // packet buffers taken from the pool, the first `spares_`
  std::uint16_t spares_ = 0;
  // Packet buffers refer to callers' memory by it. Its count is 1 whatever they are, and set so again by each
  // that lets go: DPDK would count up and down by locked operations, and each waits until all of a frame's
  // bytes have reached the other end's cache lines. One thread attaches and frees.
  rte_mbuf_ext_shared_info lent_payload_{};
  std::size_t attached_ = 0;  // packet buffers that refer to callers' memory

  std::array<rte_mbuf*, kBurst> received_{};  // of the last burst; the first `lent_` are lent to the caller
  std::uint16_t held_packets_ = 0, lent_ = 0;
  std::array<iovec, kBurst> pieces_{};
  std::uint16_t next_queue_ = 0;
  std::uint32_t bursts_ = 0;
  Time now_{};  // as of the last tick
  Time next_link_check_{};
  bool link_was_up_ = false;  // ever
  WakeEvent wake_;
  Descriptor interrupts_;  // of the receive queues, by epoll; none: the device has no interrupts
};

}  // namespace rdmc::port::dpdk
