// UdpPort, the class that open_udp_port returns. Its functions are in udp_open.cpp (sockets and flows),
// udp_send.cpp and udp_receive.cpp. It owns the sockets, the message headers for the kernel, and one overflow
// buffer for each train of a burst. Used by one thread at a time.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/port/egress_limit.hpp"
#include "dataplane/port/network_interface.hpp"
#include "dataplane/port/port.hpp"
#include "dataplane/port/readiness.hpp"
#include "dataplane/port/socket_address.hpp"
#include "dataplane/port/source_ports.hpp"
#include "dataplane/port/udp_port.hpp"
#include "dataplane/port/udp_socket.hpp"

namespace rdmc::port {

class UdpPort final : public Port {
 public:
  /// The maximum number of trains that one call of receive_burst returns. Each train has an overflow buffer.
  static constexpr std::size_t kTrainsPerBurst = 16;
  /// The maximum number of trains of one flow in a burst. With this limit, other flows can also receive
  /// trains in the same burst, and the bytes are processed while they are in the cache.
  static constexpr std::size_t kTrainsPerFlow = 4;
  /// The maximum number of pieces of a train: pieces for the header, the payload and the trailer of 64
  /// segments, and the overflow buffer.
  static constexpr std::size_t kPiecesPerTrain = 132;
  /// The size of an overflow buffer. It is larger than any UDP packet or train.
  static constexpr std::size_t kOverflowBytes = 64 * 1024;
  /// While some flows are known to be readable, the other flows are polled once in this number of bursts.
  static constexpr std::uint32_t kBurstsBetweenPolls = 4;
  static constexpr std::size_t kMessagesPerCall = 32;

  static Result<std::unique_ptr<Port>> open(const UdpPortOptions& options);

  const PortInfo& info() const noexcept override { return info_; }
  Result<FlowId> open_flow() override;
  std::uint16_t udp_port(FlowId flow) const override;
  void close_flow(FlowId flow) override;
  std::size_t send_burst(std::span<const TxTrain> trains) override;
  std::size_t receive_burst(ScatterPlanner& planner, std::span<RxTrain> out) override;
  void wait(Time deadline) override;
  void wake() noexcept override { readiness_->wake(); }
  Result<std::vector<int>> wait_descriptors() override { return readiness_->descriptors(); }
  Time prepare_wait(Time deadline) override;
  Egress egress(Time now) const override { return egress_.egress(now); }
  const PortCounters& counters() const noexcept override { return counters_; }

 private:
  struct Flow {
    UdpSocket socket;
    std::uint16_t udp_port = 0;
    std::uint32_t drops_seen = 0;
    bool listed = false;   // True if the flow is in readable_.
    bool leaving = false;  // True if the flow is in leaving_.
  };
  struct alignas(cmsghdr) Control {
    std::byte bytes[128];
  };
  /// The buffers into which the kernel writes one train of a burst.
  struct ScatterList {
    SocketAddress source;
    Control control;
    std::array<iovec, kPiecesPerTrain> pieces;
    std::size_t planned;
  };

  explicit UdpPort(const UdpPortOptions& options) : options_(options) {}

  // Defined in udp_open.cpp.
  Result<void> start();
  Result<void> try_features();
  Result<void> choose_readiness();
  Result<Flow> bind_flow(std::uint16_t udp_port);
  Result<Flow> bind_flow_of_its_own();
  Flow* find(FlowId flow);

  // Defined in udp_send.cpp.
  std::size_t send_together(std::span<const TxTrain> trains);
  bool send_one_by_one(const TxTrain& train);
  bool fits_one_call(const TxTrain& train) const;
  void prepare(std::size_t slot, const TxTrain& train, std::uint32_t segment_bytes);
  void count_sent(const TxTrain& train);
  bool may_add();
  enum class Refusal : std::uint8_t { for_now, for_good };
  Refusal refused(int error, bool train_of_several);

  // Defined in udp_receive.cpp.
  void list_readable();
  std::size_t receive_flow(FlowId id, ScatterPlanner& planner, std::span<RxTrain> out);
  std::size_t plan_scatter_lists(FlowId id, ScatterPlanner& planner, std::size_t at_most);
  bool finish(Flow& flow, FlowId id, std::size_t message, ScatterList& scatter_list, RxTrain& train);

  UdpPortOptions options_;
  PortInfo info_;
  NetworkInterface interface_;
  PortCounters counters_;
  std::unique_ptr<Readiness> readiness_;
  std::vector<std::unique_ptr<Flow>> flows_;  // Indexed by FlowId. A closed flow is null.
  // Flows that may have something to receive. They are polled round robin.
  std::vector<FlowId> readable_;
  std::vector<FlowId> reported_;
  std::uint32_t bursts_since_poll_ = 0;
  SourcePorts source_ports_;  // Chooses the port numbers of the flows.

  EgressLimit egress_;
  std::vector<FlowId> leaving_;  // Flows that have sent and may still have bytes in the host's queue.

  std::array<mmsghdr, kMessagesPerCall> messages_{};
  std::array<SocketAddress, kMessagesPerCall> destinations_;
  std::array<Control, kMessagesPerCall> controls_;
  std::vector<ScatterList> scatter_lists_;  // The lists of all trains of a burst, in order.
  std::size_t scatter_lists_used_ = 0;
  std::unique_ptr<std::byte[]> overflow_;
};

}  // namespace rdmc::port
