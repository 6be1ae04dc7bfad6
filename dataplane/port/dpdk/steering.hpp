// Steers the datagrams of bulk flows into a receive queue of their own, by rules in the device (rte_flow):
// then a flood of bulk data never fills the queue that first contact, acknowledgements of strangers and
// neighbour discovery come through. Devices without rules do without. Owned by a DPDK port; one thread.
#pragma once

#include <rte_flow.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "dataplane/base/address.hpp"

namespace rdmc::port::dpdk {

/// One rule; taken back when it is destroyed.
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
  /// The queue of bulk flows; everything else comes through queue 0.
  static constexpr std::uint16_t kBulkQueue = 1;

  /// None if the device says that it cannot; it is started and has two receive queues.
  static std::optional<Steering> try_on(std::uint16_t device, const Address& local);

  /// Steers what comes to `udp_port`. None if the device has no room for a further rule.
  std::optional<SteeringRule> steer(std::uint16_t udp_port) const;

 private:
  Steering(std::uint16_t device, const Address& local) : device_(device), local_(local) {}

  std::uint16_t device_;
  Address local_;
};

}  // namespace rdmc::port::dpdk
