// A Port on the simulated network: the same trains, flows, scatter lists and full buffers as a UDP socket
// gives, in virtual time and as a function of the seed. Each datagram of a train runs the network's gauntlet
// alone; what lies side by side in the receive queue is merged again. It belongs to one simulated process,
// which gets a turn when something arrives; so `wait` and `wake` do nothing. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "dataplane/port/egress_limit.hpp"
#include "dataplane/port/port.hpp"
#include "dataplane/sim/network.hpp"

namespace rdmc::port {

struct SimPortOptions {
  std::uint32_t mtu = 1500;
  std::uint32_t train_segments = 64;          ///< 1: no segmentation offload
  std::uint32_t receive_train_segments = 64;  ///< 1: datagrams are never merged
  std::uint32_t train_bytes = 65'507;
  std::uint32_t receive_buffer_bytes = 1 << 20;                ///< of each flow
  std::uint32_t send_buffer_bytes = EgressLimit::kUsualBytes;  ///< waiting to leave the host; more is refused
  bool holds_back = true;                                      ///< by the egress limit, as the udp port does
  bool identification_counts_up = true;
  std::uint16_t shared_port = 4791;  ///< of flow 0, where free; else any
};

class SimPort final : public Port {
 public:
  /// `network` outlives the port. `owner` is the process that will use it.
  SimPort(sim::Network& network, sim::ProcessId owner, const SimPortOptions& options = {});
  ~SimPort() override;
  SimPort(const SimPort&) = delete;
  SimPort& operator=(const SimPort&) = delete;

  const PortInfo& info() const noexcept override { return info_; }
  Result<FlowId> open_flow() override;
  std::uint16_t udp_port(FlowId flow) const override;
  void close_flow(FlowId flow) override;
  std::size_t send_burst(std::span<const TxTrain> trains) override;
  std::size_t receive_burst(ScatterPlanner& planner, std::span<RxTrain> out) override;
  Egress egress(Time now) const override { return egress_.egress(now); }
  void wait(Time) override {}
  void wake() noexcept override {}
  const PortCounters& counters() const noexcept override { return counters_; }

 private:
  /// Most pieces of one planned scatter list: as many as Linux takes in one call would be 1024; planners use
  /// few.
  static constexpr std::size_t kMostPieces = 136;

  struct Flow final : sim::Socket {
    Flow(SimPort& owner, FlowId id) : port(owner), flow(id) {}
    void deliver(sim::DatagramId datagram) override { port.deliver(*this, datagram); }

    SimPort& port;
    FlowId flow;
    std::uint16_t udp_port = 0;
    bool open = true;
    std::deque<sim::DatagramId> queue;
    std::uint64_t queued_bytes = 0;
  };
  /// Where a received train lies until the next burst.
  struct Slot {
    std::array<iovec, kMostPieces + 1> pieces;
    std::vector<std::byte> memory;
  };

  void deliver(Flow& flow, sim::DatagramId datagram);
  void drop_empty(Flow& flow);
  std::size_t mergeable(const Flow& flow) const;
  RxTrain take(Flow& flow, std::size_t count, std::span<iovec> scatter_list, Slot& slot);
  bool fits(const TxTrain& train) const;
  void send(const TxTrain& train);
  bool may_add();

  sim::Network& network_;
  sim::ProcessId owner_;
  sim::HostId host_;
  std::uint64_t send_buffer_bytes_;
  bool holds_back_;
  EgressLimit egress_;
  PortInfo info_;
  PortCounters counters_;
  std::vector<std::unique_ptr<Flow>> flows_;
  std::deque<FlowId> ready_;  ///< flows with something in their queue, each once
  std::vector<std::unique_ptr<Slot>> slots_;
};

}  // namespace rdmc::port
