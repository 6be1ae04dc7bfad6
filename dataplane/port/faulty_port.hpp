// A decorator for any Port. It loses, duplicates, reorders, damages and delays datagrams that are sent
// through it. With it, tests and users get the faults of a real network without privileges. A fault applies
// to one datagram of a train, and the rest of the train is sent. Received datagrams are not changed. So both
// ends need a FaultyPort if both directions are to have faults. Must be used on the one thread that uses the
// inner port.
//
// A train with a gap is sent as two trains. The datagrams of the second train then have another IPv4
// identification than the one that their ICRC covers. Endpoints of rdmc are not affected, because their
// packets contain the identification that the ICRC covers. Foreign endpoints would reject these datagrams.
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

  /// `inner` must outlive this port. `clock` must be the clock of inner's `wait`.
  FaultyPort(Port& inner, const sim::FaultRates& rates, std::uint64_t seed, Clock clock);

  /// Returns the info of the inner port, except that same_host_only is always false, because the packets of
  /// this port can be lost or damaged.
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
  /// Returns when the next held datagram is due, or Time::never() if none is held.
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
  /// Returns the datagrams [first, last) of a train. The result is valid until the next call of slice.
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
  std::vector<Held> held_;  ///< Sorted by due time.
  std::vector<iovec> pieces_;
};

}  // namespace rdmc::port
