// Opens and closes a DPDK port and its flows.
#include <rte_interrupts.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>

#include "dataplane/base/clock.hpp"
#include "dataplane/port/dpdk/dpdk_port.hpp"
#include "dataplane/port/dpdk/eal.hpp"

namespace rdmc::port::dpdk {
namespace {

/// The lengths of the address prefix that are used if DpdkOptions::prefix_bits is 0.
constexpr std::uint8_t kIpv4PrefixBits = 24, kIpv6PrefixBits = 64;

LinkAddress link_address(const Device& device, Address address, const DpdkOptions& options) {
  address.port = 0;
  const std::uint8_t usual = address.ipv6 ? kIpv6PrefixBits : kIpv4PrefixBits;
  return {.mac = device.mac(),
          .ip = address,
          .prefix_bits = options.prefix_bits == 0 ? usual : options.prefix_bits,
          .gateway = options.gateway};
}

}  // namespace

Result<std::unique_ptr<Port>> DpdkPort::open(std::unique_ptr<Device> device, const Sender& sender,
                                             const DpdkOptions& options, SourcePorts ports) {
  const LinkAddress ours = link_address(*device, sender.address, options);
  std::unique_ptr<DpdkPort> port(new DpdkPort(std::move(device), ours, sender.traffic_class, ports));
  if (auto started = port->start(sender.address, options); !started) return std::unexpected(started.error());
  return port;
}

DpdkPort::DpdkPort(std::unique_ptr<Device> device, const LinkAddress& ours, std::uint8_t traffic_class,
                   SourcePorts ports)
    : device_(std::move(device)),
      neighbours_(ours),
      flow_of_port_(std::size_t{UINT16_MAX} + 1),
      source_ports_(ports),
      traffic_class_(traffic_class),
      paths_(kPaths),
      known_(kKnown) {
  if (device_->is_memif()) gate_.emplace();
  lent_payload_.free_cb = [](void*, void* port) {
    auto& self = *static_cast<DpdkPort*>(port);
    --self.attached_;
    rte_mbuf_ext_refcnt_set(&self.lent_payload_, 1);
  };
  lent_payload_.fcb_opaque = this;
  rte_mbuf_ext_refcnt_set(&lent_payload_, 1);
}

Result<void> DpdkPort::start(const Address& address, const DpdkOptions& options) {
  if (options.gateway && options.gateway->ipv6 != address.ipv6)
    return fail(Errc::invalid_argument, "a gateway of the other address family");
  if (wake_.descriptor() < 0) return fail_errno("eventfd", errno);
  info_.driver = "dpdk";
  info_.address = address;
  if (info_.address.port == 0) info_.address.port = kRocePort;
  info_.mtu = device_->mtu();
  info_.train_bytes =
      static_cast<std::uint32_t>(info_.mtu - (address.ipv6 ? kIpv6Bytes : kIpv4Bytes) - kUdpBytes);
  info_.same_host_only = device_->same_host_only();
  info_.loses_uncut_trains = device_->may_receive_uncut();
  info_.receive_buffer_bytes = device_->descriptors() * info_.train_bytes;
  if (!options.hugepages) info_.notes.push_back("ordinary pages in place of hugepages");
  watch_interrupts();
  if (!interrupts_)
    info_.notes.push_back("the device cannot wake a sleeper: it is looked at again and again");
  if (!device_->wait_for_link())
    info_.notes.push_back("the link is down: the other end is not there yet, or a cable is not plugged in");
  flows_.resize(1);
  listen(kSharedFlow, info_.address.port);
  now_ = monotonic_now();
  check_link();
  register_this_thread();
  held_packets_ =
      take_burst(kBurst);  // A memif's client offers space for frames only after it has polled once.
  neighbours_.announce();
  send_neighbour_messages();
  return {};
}

void DpdkPort::listen(FlowId id, std::uint16_t udp_port) {
  flows_[value_of(id)].udp_port = udp_port;
  flow_of_port_[udp_port] = static_cast<std::uint16_t>(value_of(id) + 1);
}

std::optional<std::uint16_t> DpdkPort::free_udp_port() {
  for (std::uint32_t tries = 0; tries < SourcePorts::kCount; ++tries) {
    if (const std::uint16_t candidate = source_ports_.next(); flow_of_port_[candidate] == 0) return candidate;
  }
  return std::nullopt;
}

/// Makes the descriptor on which the port waits for the interrupt of the receive queue.
void DpdkPort::watch_interrupts() {
  if (!device_->wakes()) return;
  interrupts_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (rte_eth_dev_rx_intr_ctl_q(device_->id(), Device::kQueue, interrupts_.get(), RTE_INTR_EVENT_ADD,
                                nullptr) != 0)
    interrupts_.reset();
}

Result<FlowId> DpdkPort::open_flow() {
  const auto udp_port = free_udp_port();
  if (!udp_port) return fail(Errc::resource_limit, "every UDP port for flows is in use");
  const auto gap = std::ranges::find(flows_, 0, &Flow::udp_port);
  const FlowId id{static_cast<std::uint32_t>(gap - flows_.begin())};
  if (gap == flows_.end()) flows_.emplace_back();
  listen(id, *udp_port);
  return id;
}

void DpdkPort::close_flow(FlowId id) {
  assert(id != kSharedFlow && flows_[value_of(id)].udp_port != 0);
  Flow& flow = flows_[value_of(id)];
  flow_of_port_[flow.udp_port] = 0;
  flow = {};
  for (Path& path : paths_) {
    if (path.source == id) path = {};
  }
  std::erase_if(held_, [id](const Held& held) {
    if (held.source != id) return false;
    rte_pktmbuf_free(held.payload);
    return true;
  });
}

DpdkPort::~DpdkPort() {
  register_this_thread();
  release_received();
  for (const Held& held : held_) rte_pktmbuf_free(held.payload);
  rte_pktmbuf_free_bulk(spare_.data(), spares_);
  if (interrupts_)
    rte_eth_dev_rx_intr_ctl_q(device_->id(), Device::kQueue, interrupts_.get(), RTE_INTR_EVENT_DEL, nullptr);
}

}  // namespace rdmc::port::dpdk
