// DpdkPort, the Port on a DPDK device. It writes and reads UDP datagrams as Ethernet frames, finds neighbours
// and answers their requests, and distinguishes flows by their UDP port number. Its functions are in
// port_open.cpp, port_transmit.cpp, port_receive.cpp and port_wait.cpp. It owns the device and every packet
// buffer. Received bytes stay in those buffers until the next burst. Used by one thread at a time.
//
// The port does not use the scatter planner, because a frame's header can be read before its payload has to
// be placed anywhere. The receiver of the train copies the payload once, from the packet buffer to its final
// memory.
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
#include "dataplane/port/piece_cutter.hpp"
#include "dataplane/port/port.hpp"
#include "dataplane/port/source_ports.hpp"
#include "dataplane/port/wake_event.hpp"

namespace rdmc::port::dpdk {

class DpdkPort final : public Port {
 public:
  /// The maximum number of frames that one call exchanges with the device.
  static constexpr std::uint16_t kBurst = 32;
  /// Payload that is shorter than this is copied into the frame. A copy is cheaper than attaching the payload
  /// in a further packet buffer.
  static constexpr std::size_t kLeastAttached = 512;
  /// Datagrams for neighbours that are being resolved may use one packet buffer in kHeldShare. Except with
  /// the largest frames, this is enough for a whole window. Further datagrams are refused while the answer to
  /// the first request to the neighbour may still arrive. After that time they are dropped, so that a dead
  /// host does not delay traffic to other hosts.
  static constexpr std::uint32_t kHeldShare = 4;
  /// The clock is read, and the timers run, once in this number of bursts.
  static constexpr std::uint32_t kBurstsPerTick = 32;
  static constexpr std::size_t kPaths = 256;
  static constexpr std::size_t kKnown = 64;

  /// The interval at which the state of the link is checked.
  static constexpr Duration kLinkCheckInterval = milliseconds(50);

  /// The parts of a request that the port needs: an address that is not a wildcard, and the byte of IP
  /// headers that contains the DSCP.
  struct Sender {
    Address address;
    std::uint8_t traffic_class = 0;
  };
  /// Opens a port. `device` must be started. `ports` supplies the port numbers of the flows, from a random
  /// start.
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
    std::uint16_t udp_port = 0;  // 0 if the flow is closed.
  };
  /// The headers of a flow's datagrams to one destination. They are valid as long as the generation of the
  /// neighbours is the same.
  struct Path {
    Address destination;
    FlowId source{};
    std::uint64_t generation = 0;
    Time looked_up{};
    std::optional<UdpHeaders> headers;  // Empty while the neighbour is being resolved.
    // True if only the first request was sent and the answer to it may still arrive.
    bool asked_once = false;
  };
  /// A recent source of datagrams, and the common beginning of its frames.
  struct Known {
    UdpPattern pattern;
    Address source;
    std::uint16_t udp_port = 0;  // The local UDP port number.
    bool congestion_experienced = false;
  };
  /// A datagram whose neighbour is being resolved. The packet buffer contains only the payload.
  struct Held {
    rte_mbuf* payload;
    Address destination;
    FlowId source;
    bool ecn_capable;
  };
  /// Frames for the device, and the index of the train that each frame belongs to.
  struct Batch {
    std::array<rte_mbuf*, kBurst> frames;
    std::array<std::size_t, kBurst> train;
    std::uint16_t count = 0;
  };

  DpdkPort(std::unique_ptr<Device> device, const LinkAddress& ours, std::uint8_t traffic_class,
           SourcePorts ports);

  // Defined in port_open.cpp.
  Result<void> start(const Address& address, const DpdkOptions& options);
  std::optional<std::uint16_t> free_udp_port();
  void watch_interrupts();
  void listen(FlowId id, std::uint16_t udp_port);

  // Defined in port_transmit.cpp.
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

  // Defined in port_receive.cpp.
  void tick(Time now);
  void check_link();
  std::uint16_t take_burst(std::uint16_t at_most);
  bool accept(rte_mbuf& buffer, RxTrain& train, iovec& piece);
  bool deliver(const Known& from, std::uint16_t identification, std::span<std::byte> payload, RxTrain& train,
               iovec& piece);
  void release_received();

  // Defined in port_wait.cpp.
  bool sleep_until_interrupt(Time until);
  void doze(Time until);
  void count_drops();

  std::unique_ptr<Device> device_;
  std::optional<MemifGate> gate_;  // Present if the device is a memif.
  PortInfo info_;
  PortCounters counters_;
  Neighbours neighbours_;
  std::vector<Flow> flows_;  // Indexed by FlowId.
  // Indexed by UDP port number. The value is FlowId + 1, or 0 if no flow uses the number.
  std::vector<std::uint16_t> flow_of_port_;
  SourcePorts source_ports_;
  const std::uint8_t traffic_class_;
  std::vector<Path> paths_;   // Indexed by a hash of destination and source.
  std::vector<Known> known_;  // Indexed by a hash of the UDP port numbers.
  std::deque<Held> held_;
  // The generation of the neighbours when held_ was last processed to its end.
  std::uint64_t held_generation_ = 0;
  // Packet buffers that were taken from the pool in advance. The first `spares_` entries are valid.
  std::array<rte_mbuf*, kBurst> spare_{};
  std::uint16_t spares_ = 0;
  // Packet buffers refer to callers' memory through this object. Its reference count is always 1, and each
  // buffer that is freed sets it to 1 again. A real reference count would cost time, because DPDK changes it
  // by locked CPU instructions. Each locked instruction would wait until all bytes of the frame have reached
  // the cache lines of the other end. The constant count is safe because only one thread attaches and frees
  // buffers.
  rte_mbuf_ext_shared_info lent_payload_{};
  std::size_t attached_ = 0;  // The number of packet buffers that refer to callers' memory.

  // The frames of the last burst. The first `lent_` of them are lent to the caller.
  std::array<rte_mbuf*, kBurst> received_{};
  std::uint16_t held_packets_ = 0, lent_ = 0;
  std::array<iovec, kBurst> pieces_{};
  std::uint32_t bursts_ = 0;
  Time now_{};  // The time of the last tick.
  Time next_link_check_{};
  bool link_was_up_ = false;  // True if the link has ever been up.
  WakeEvent wake_;
  // An epoll descriptor for the interrupt of the receive queue. Empty if the device has no interrupts.
  Descriptor interrupts_;
};

}  // namespace rdmc::port::dpdk
