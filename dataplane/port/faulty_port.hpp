// A decorator over any Port that loses, doubles, reorders, damages and holds back what is sent through it:
// the loss that tests and users can have on a real network without privileges. Faults strike each datagram of
// a train alone; the rest of the train goes on. What arrives is untouched: put one on both ends for both
// directions. One thread, the port's.
//
// A train with a gap goes on as two, so its later datagrams leave with another IPv4 identification than their
// ICRC says. Our own endpoints carry the number in the packet and never notice; strangers would.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "dataplane/base/random.hpp"
#include "dataplane/port/port.hpp"
#include "dataplane/sim/faults.hpp"

namespace rdmc::port {

class FaultyPort final : public Port {
 public:
  using Clock = std::function<Time()>;

  /// `inner` outlives this; `clock` is the one that inner's `wait` means.
  FaultyPort(Port& inner, const sim::FaultRates& rates, std::uint64_t seed, Clock clock);

  /// inner's, but never same_host_only: these packets do not arrive as they were sent.
  const PortInfo& info() const noexcept override { return info_; }
  Result<FlowId> open_flow() override { return inner_.open_flow(); }
  std::uint16_t udp_port(FlowId flow) const override { return inner_.udp_port(flow); }
  void close_flow(FlowId flow) override;
  std::size_t send_burst(std::span<const TxTrain> trains) override;
  std::size_t receive_burst(ScatterPlanner& planner, std::span<RxTrain> out) override;
  void wait(Time deadline) override;
  void wake() noexcept override { inner_.wake(); }
  const PortCounters& counters() const noexcept override { return inner_.counters(); }

  const sim::FaultCounts& faults() const { return faults_; }
  /// When something held back is due; Time::never() if nothing is.
  Time next_release() const;

 private:
  struct Held {
    Time due;
    Address destination;
    FlowId source;
    bool ecn_capable;
    std::vector<std::byte> bytes;
  };

  bool send(const TxTrain& train);
  void forward(const TxTrain& train, std::uint32_t first, std::uint32_t last);
  /// Datagrams [first, last) of a train; valid until the next slice.
  TxTrain slice(const TxTrain& train, std::uint32_t first, std::uint32_t last);
  void hold(const TxTrain& train, std::uint32_t segment, Time due, bool damaged);
  void release_due();

  void refresh_info();

  Port& inner_;
  PortInfo info_;
  sim::FaultRates rates_;
  Random random_;
  Clock clock_;
  sim::FaultCounts faults_;
  std::vector<Held> held_;  ///< by due time
  std::vector<iovec> pieces_;
};

}  // namespace rdmc::port
