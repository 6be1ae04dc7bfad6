// What ports without a driver below them have in common: an address, flows that are only numbers, counters
// that nobody reads, no waiting. What is sent is taken and forgotten and nothing arrives: a test that wants
// more overrides those two. One thread.
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
  /// Whose UDP port that is.
  FlowId flow_of(std::uint16_t udp_port) const {
    return udp_port == info_.address.port ? kSharedFlow : FlowId{udp_port - std::uint32_t{kBeforeFlows}};
  }
  void close_flow(FlowId) override { --open_flows; }
  /// The next process at this address gets the same UDP ports.
  void forget_flows() { flows_ = 0; }

  std::size_t send_burst(std::span<const TxTrain> trains) override { return trains.size(); }
  std::size_t receive_burst(ScatterPlanner&, std::span<RxTrain>) override { return 0; }
  void wait(Time) override {}
  void wake() noexcept override {}
  const PortCounters& counters() const noexcept override { return counters_; }

  std::size_t open_flows = 0;         ///< without the shared one
  std::size_t most_flows = SIZE_MAX;  ///< … that there can be

 private:
  static constexpr std::uint16_t kBeforeFlows = 50'000;

  PortInfo info_;
  PortCounters counters_;
  std::uint32_t flows_ = 0;
};

}  // namespace rdmc::port::testing
