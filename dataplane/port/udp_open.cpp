// Opens a udp port: checks the address, finds the interface, and tests what the kernel can do there. Opens
// and closes the port's flows.
#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>

#include "dataplane/base/address_kind.hpp"
#include "dataplane/port/udp_driver.hpp"
#include "dataplane/port/udp_self_test.hpp"

namespace rdmc::port {
namespace {

constexpr std::uint32_t kSegmentsPerTrain = 64;  // The value of UDP_MAX_SEGMENTS in older kernels.
// The length of the largest train: the largest IP packet without its headers. On some kernels, an IPv6
// payload could be 40 bytes longer.
constexpr std::uint32_t kTrainBytesIpv4 = 65'535 - 20 - 8;
constexpr std::uint32_t kTrainBytesIpv6 = 65'535 - 40 - 8;

std::string owned_by(const std::string& device, const Address& address) {
  return "UDP port 4791 of " + host_string(address) + " belongs to the RDMA device " + device;
}

class UdpDriver final : public Driver {
 public:
  explicit UdpDriver(std::filesystem::path rdma_devices) : rdma_devices_(std::move(rdma_devices)) {}
  std::string_view name() const noexcept override { return "udp"; }
  Usability probe(const PortRequest& request) override {
    Usability usability{.usable = true, .reason = "needs nothing but a UDP socket"};
    if (const auto device = rdma_device_at(request.address, rdma_devices_))
      usability.reason += "; " + owned_by(*device, request.address) +
                          ": programs of ours use another, and peers that are not ours reach the device";
    return usability;
  }
  std::array<PortRequest, 2> pair_on_this_host() override {
    const PortRequest loopback{.address = Address::ipv4(127, 0, 0, 1, 0), .device = {}};
    return {loopback, loopback};
  }
  Result<std::unique_ptr<Port>> open(const PortRequest& request) override {
    if (!request.device.empty())
      return fail(Errc::invalid_argument, "udp takes an address and no device: '" + request.device + "'");
    return open_udp_port({.address = request.address,
                          .dscp = request.dscp,
                          .changes_threads = request.changes_threads,
                          .rdma_devices = rdma_devices_});
  }

 private:
  std::filesystem::path rdma_devices_;
};

}  // namespace

std::unique_ptr<Driver> udp_driver(std::filesystem::path rdma_devices) {
  return std::make_unique<UdpDriver>(std::move(rdma_devices));
}

Result<std::unique_ptr<Port>> open_udp_port(const UdpPortOptions& options) {
  return UdpPort::open(options);
}

Result<std::unique_ptr<Port>> UdpPort::open(const UdpPortOptions& options) {
  std::unique_ptr<UdpPort> port(new UdpPort(options));
  if (auto started = port->start(); !started) return std::unexpected(started.error());
  return port;
}

Result<void> UdpPort::start() {
  if (!is_host_address(options_.address))
    return fail(Errc::invalid_argument,
                host_string(options_.address) + " is not the address of one interface");
  if (options_.dscp > kMostDscp) return not_a_dscp(options_.dscp);
  if (options_.address.port == kRocePort) {
    // Binding would succeed, but the socket would never receive anything.
    if (const auto device = rdma_device_at(options_.address, options_.rdma_devices))
      return fail(Errc::already_exists, owned_by(*device, options_.address));
  }
  const auto interface = find_interface(options_.address);
  if (!interface) return std::unexpected(interface.error());
  interface_ = *interface;

  const bool ipv6 = options_.address.ipv6;
  info_.driver = "udp";
  info_.mtu = std::min(interface_.mtu, 65'535U);
  info_.train_bytes = ipv6 ? kTrainBytesIpv6 : kTrainBytesIpv4;
  info_.same_host_only = interface_.loopback;
  if (auto tried = try_features(); !tried) return tried;
  if (auto chosen = choose_readiness(); !chosen) return chosen;

  auto shared = bind_flow(options_.address.port);
  if (!shared) return std::unexpected(shared.error());
  info_.address = shared->socket.address();
  source_ports_ = SourcePorts(static_cast<std::uint32_t>(getpid()) * 0x9E37 + info_.address.port);
  // The kernel reports twice the requested size, because its number includes the kernel's own structures.
  info_.receive_buffer_bytes = static_cast<std::uint32_t>(shared->socket.get(SOL_SOCKET, SO_RCVBUF)) / 2;
  flows_.push_back(std::make_unique<Flow>(std::move(*shared)));
  scatter_lists_.resize(kTrainsPerBurst);
  overflow_ = std::make_unique_for_overwrite<std::byte[]>(kTrainsPerBurst * kOverflowBytes);
  return readiness_->add(kSharedFlow, flows_[0]->socket.descriptor());
}

Result<void> UdpPort::try_features() {
  Address any_port = options_.address;
  any_port.port = 0;
  const auto found = try_udp(SocketAddress(any_port, interface_.index));
  if (!found) return std::unexpected(found.error());

  const auto settle = [&](Use wanted, bool works, const char* feature) -> Result<bool> {
    if (wanted == Use::off) return false;
    if (works) return true;
    const char* const cause =
        found->reaches_itself ? " does not work here" : " was not tried: datagrams to itself got lost";
    if (wanted == Use::on) return fail(Errc::unsupported, feature + std::string(cause));
    info_.notes.push_back(feature + std::string(cause));
    return false;
  };
  const auto segmentation =
      settle(options_.segmentation, found->segmentation, "sending trains (UDP_SEGMENT)");
  if (!segmentation) return std::unexpected(segmentation.error());
  const auto trains = settle(options_.receive_trains, found->receive_trains, "receiving trains (UDP_GRO)");
  if (!trains) return std::unexpected(trains.error());

  info_.train_segments = *segmentation ? kSegmentsPerTrain : 1;
  info_.receive_train_segments = *trains ? kSegmentsPerTrain : 1;
  info_.identification_counts_up = *segmentation && !options_.address.ipv6;
  if (found->first_identification.value_or(0) != 0)
    info_.notes.push_back(
        "this kernel numbers IPv4 datagrams: RoCE endpoints that are not ours will not accept them");
  return {};
}

Result<void> UdpPort::choose_readiness() {
  if (options_.io_uring != Use::off) {
    auto ring = make_uring_readiness(counters_.system_calls, options_.changes_threads);
    if (ring) {
      readiness_ = std::move(*ring);
      return {};
    }
    if (options_.io_uring == Use::on) return fail(Errc::unsupported, ring.error().what);
    info_.notes.push_back("epoll in place of io_uring: " + ring.error().what);
  }
  auto epoll = make_epoll_readiness(counters_.system_calls);
  if (!epoll) return std::unexpected(epoll.error());
  readiness_ = std::move(*epoll);
  return {};
}

Result<UdpPort::Flow> UdpPort::bind_flow(std::uint16_t udp_port) {
  Address address = options_.address;
  address.port = udp_port;
  auto socket = UdpSocket::bind(SocketAddress(address, interface_.index),
                                {.receive_buffer_bytes = options_.receive_buffer_bytes,
                                 .send_buffer_bytes = options_.send_buffer_bytes,
                                 .busy_poll_us = options_.busy_poll_us,
                                 .traffic_class = traffic_class_of(options_.dscp),
                                 .receive_trains = info_.receive_train_segments > 1});
  if (!socket) return std::unexpected(socket.error());
  const std::uint16_t bound = socket->address().port;
  return Flow{.socket = std::move(*socket), .udp_port = bound};
}

/// Tries a few port numbers of the RoCEv2 range. If other sockets use these numbers, lets the kernel choose
/// any number.
Result<UdpPort::Flow> UdpPort::bind_flow_of_its_own() {
  constexpr std::uint32_t kTries = 8;
  for (std::uint32_t i = 0; i < kTries; ++i) {
    auto flow = bind_flow(source_ports_.next());
    if (flow || flow.error().code != Errc::already_exists) return flow;
  }
  return bind_flow(0);
}

Result<FlowId> UdpPort::open_flow() {
  auto flow = bind_flow_of_its_own();
  if (!flow) return std::unexpected(flow.error());
  const auto gap = std::find(flows_.begin(), flows_.end(), nullptr);
  const FlowId id{static_cast<std::uint32_t>(gap - flows_.begin())};
  if (auto added = readiness_->add(id, flow->socket.descriptor()); !added)
    return std::unexpected(added.error());
  auto owned = std::make_unique<Flow>(std::move(*flow));
  if (gap == flows_.end())
    flows_.push_back(std::move(owned));
  else
    *gap = std::move(owned);
  return id;
}

UdpPort::Flow* UdpPort::find(FlowId flow) {
  return value_of(flow) < flows_.size() ? flows_[value_of(flow)].get() : nullptr;
}

std::uint16_t UdpPort::udp_port(FlowId flow) const {
  assert(value_of(flow) < flows_.size() && flows_[value_of(flow)] != nullptr);
  return flows_[value_of(flow)]->udp_port;
}

void UdpPort::close_flow(FlowId flow) {
  assert(flow != kSharedFlow && find(flow) != nullptr);
  readiness_->remove(flow, find(flow)->socket.descriptor());
  std::erase(readable_, flow);
  flows_[value_of(flow)].reset();
}

}  // namespace rdmc::port
