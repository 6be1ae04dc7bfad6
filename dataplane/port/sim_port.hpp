// A Port on the simulated network. It has the same trains, flows, scatter lists and full buffers as a UDP
// socket, but runs in virtual time and depends only on the seed. The network treats each datagram of a train
// separately. Adjacent datagrams in the receive queue are merged again. The port belongs to one simulated
// process. The simulation runs that process when something arrives, so `wait` and `wake` do nothing. Used by
// one thread.
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
  std::uint32_t train_segments = 64;          ///< 1 means no segmentation offload.
  std::uint32_t receive_train_segments = 64;  ///< 1 means that datagrams are never merged.
  std::uint32_t train_bytes = 65'507;
  std::uint32_t receive_buffer_bytes = 1 << 20;  ///< The buffer of each flow.
  /// If more bytes than this wait to leave the host, sends are refused.
  std::uint32_t send_buffer_bytes = EgressLimit::kUsualBytes;
  /// True if the egress limit refuses sends, as in the udp port.
  bool holds_back = true;
  bool identification_counts_up = true;
  /// The UDP port number of flow 0 if it is free. Otherwise flow 0 gets any free number.
  std::uint16_t shared_port = kRocePort;
};

class SimPort final : public Port {
 public:
  /// `network` must outlive the port. `owner` is the process that will use it.
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
  /// The maximum number of pieces of one planned scatter list. Linux accepts 1024 pieces in one call, but
  /// planners use few.
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
  /// The memory of a received train until the next burst.
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
  std::deque<FlowId> ready_;  ///< Flows with something in their queue. Each flow is listed once.
  std::vector<std::unique_ptr<Slot>> slots_;
};

}  // namespace rdmc::port
