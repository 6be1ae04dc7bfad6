#include "dataplane/port/dpdk/steering.hpp"

#include <rte_byteorder.h>

#include <array>
#include <cstring>

namespace rdmc::port::dpdk {
namespace {

/// A rule in DPDK's format: it matches Ethernet, IP to the local address, and UDP to one port number, and
/// directs the frame to the bulk queue.
class Pattern {
 public:
  Pattern(const Address& local, std::uint16_t udp_port) {
    if (local.ipv6) {
      std::memcpy(ipv6_.hdr.dst_addr, local.bytes.data(), sizeof ipv6_.hdr.dst_addr);
      std::memset(ipv6_mask_.hdr.dst_addr, 0xFF, sizeof ipv6_mask_.hdr.dst_addr);
    } else {
      std::memcpy(&ipv4_.hdr.dst_addr, local.bytes.data(), sizeof ipv4_.hdr.dst_addr);
      ipv4_mask_.hdr.dst_addr = UINT32_MAX;
    }
    udp_.hdr.dst_port = rte_cpu_to_be_16(udp_port);
    udp_mask_.hdr.dst_port = UINT16_MAX;
    items_[0] = {.type = RTE_FLOW_ITEM_TYPE_ETH};
    items_[1] = local.ipv6
                    ? rte_flow_item{.type = RTE_FLOW_ITEM_TYPE_IPV6, .spec = &ipv6_, .mask = &ipv6_mask_}
                    : rte_flow_item{.type = RTE_FLOW_ITEM_TYPE_IPV4, .spec = &ipv4_, .mask = &ipv4_mask_};
    items_[2] = {.type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &udp_, .mask = &udp_mask_};
    items_[3] = {.type = RTE_FLOW_ITEM_TYPE_END};
    actions_[0] = {.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &queue_};
    actions_[1] = {.type = RTE_FLOW_ACTION_TYPE_END};
  }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  int validate(std::uint16_t device) {
    return rte_flow_validate(device, &attributes_, items_.data(), actions_.data(), &error_);
  }
  rte_flow* create(std::uint16_t device) {
    return rte_flow_create(device, &attributes_, items_.data(), actions_.data(), &error_);
  }

 private:
  rte_flow_attr attributes_{.ingress = 1};
  rte_flow_item_ipv4 ipv4_{}, ipv4_mask_{};
  rte_flow_item_ipv6 ipv6_{}, ipv6_mask_{};
  rte_flow_item_udp udp_{}, udp_mask_{};
  rte_flow_action_queue queue_{.index = Steering::kBulkQueue};
  std::array<rte_flow_item, 4> items_{};
  std::array<rte_flow_action, 2> actions_{};
  rte_flow_error error_{};
};

}  // namespace

SteeringRule::~SteeringRule() {
  rte_flow_error error{};
  if (flow_ != nullptr) rte_flow_destroy(device_, flow_, &error);
}

std::optional<Steering> Steering::try_on(std::uint16_t device, const Address& local) {
  constexpr std::uint16_t kAnyPort = 4791;
  if (Pattern(local, kAnyPort).validate(device) != 0) return std::nullopt;
  return Steering(device, local);
}

std::optional<SteeringRule> Steering::steer(std::uint16_t udp_port) const {
  rte_flow* const flow = Pattern(local_, udp_port).create(device_);
  if (flow == nullptr) return std::nullopt;
  return SteeringRule(device_, flow);
}

}  // namespace rdmc::port::dpdk
