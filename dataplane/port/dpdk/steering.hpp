// Directs the datagrams of bulk flows to a receive queue of their own, by rules in the device (rte_flow). A
// flood of bulk data then cannot fill the queue that receives first contacts, acknowledgements of foreign
// endpoints and neighbour discovery. Ports on devices without such rules do not use steering. Owned by a DPDK
// port; one thread.
#pragma once

#include <rte_flow.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "dataplane/base/address.hpp"

namespace rdmc::port::dpdk {

/// One rule. The destructor removes it from the device.
class SteeringRule {
 public:
  SteeringRule(std::uint16_t device, rte_flow* flow) : device_(device), flow_(flow) {}
  ~SteeringRule();
  SteeringRule(SteeringRule&& other) noexcept
      : device_(other.device_), flow_(std::exchange(other.flow_, nullptr)) {}
  SteeringRule& operator=(SteeringRule&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(flow_, other.flow_);
    return *this;
  }

 private:
  std::uint16_t device_;
  rte_flow* flow_;
};

class Steering {
 public:
  /// The queue of bulk flows. All other frames use queue 0.
  static constexpr std::uint16_t kBulkQueue = 1;

  /// Begins to use steering on a device. Precondition: the device is started and has two receive queues.
  /// Returns nullopt if the device does not support such rules.
  static std::optional<Steering> try_on(std::uint16_t device, const Address& local);

  /// Adds a rule that directs the datagrams for `udp_port` to the bulk queue. Returns nullopt if the device
  /// accepts no further rule.
  std::optional<SteeringRule> steer(std::uint16_t udp_port) const;

 private:
  Steering(std::uint16_t device, const Address& local) : device_(device), local_(local) {}

  std::uint16_t device_;
  Address local_;
};

}  // namespace rdmc::port::dpdk
