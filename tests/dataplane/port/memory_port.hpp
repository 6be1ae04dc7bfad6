// The common part of test ports without a packet driver. It has an address, flows that are only numbers,
// counters that stay 0, and a wait() that returns at once. It accepts and discards sent trains, and no train
// arrives. A test that needs more overrides send_burst and receive_burst. Only one thread may use it.
#pragma once

#include <cstdint>
#include <utility>

#include "dataplane/port/port.hpp"

namespace rdmc::port::testing {

class MemoryPort : public Port {
 public:
  explicit MemoryPort(PortInfo info) : info_(std::move(info)) {}

  const PortInfo& info() const noexcept override { return info_; }
  Result<FlowId> open_flow() override {
    if (open_flows == most_flows) return fail(Errc::resource_limit, "no more flows");
    ++open_flows;
    return FlowId{++flows_};
  }
  std::uint16_t udp_port(FlowId flow) const override {
    return flow == kSharedFlow ? info_.address.port
                               : static_cast<std::uint16_t>(kBeforeFlows + value_of(flow));
  }
  /// Returns the flow that has this UDP port number.
  FlowId flow_of(std::uint16_t udp_port) const {
    return udp_port == info_.address.port ? kSharedFlow : FlowId{udp_port - std::uint32_t{kBeforeFlows}};
  }
  void close_flow(FlowId) override { --open_flows; }
  /// Numbers the flows from 1 again. So the next process at this address gets the same UDP port numbers.
  void forget_flows() { flows_ = 0; }

  std::size_t send_burst(std::span<const TxTrain> trains) override { return trains.size(); }
  std::size_t receive_burst(ScatterPlanner&, std::span<RxTrain>) override { return 0; }
  void wait(Time) override {}
  void wake() noexcept override {}
  const PortCounters& counters() const noexcept override { return counters_; }

  std::size_t open_flows = 0;         ///< The number of open flows, without the shared flow.
  std::size_t most_flows = SIZE_MAX;  ///< The limit of open_flows.

 private:
  static constexpr std::uint16_t kBeforeFlows = 50'000;

  PortInfo info_;
  PortCounters counters_;
  std::uint32_t flows_ = 0;
};

}  // namespace rdmc::port::testing
