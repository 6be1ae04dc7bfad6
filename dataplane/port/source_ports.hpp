// Which UDP ports a driver gives to the flows of a port, one after the other. A connection's packets leave
// from its flow's port, by which networks with several paths and NICs with several queues tell flows apart;
// RoCEv2 keeps the upper quarter of the port numbers for that (Annex A17.9.2). Pure: the caller brings a
// random start.
#pragma once

#include <cstdint>

namespace rdmc::port {

class SourcePorts {
 public:
  static constexpr std::uint32_t kFirst = 0xC000, kCount = 0x4000;

  explicit SourcePorts(std::uint32_t start = 0) : position_(start) {}

  /// Spread over the range; every one of it comes once in kCount calls.
  std::uint16_t next() {
    position_ += kStep;
    return static_cast<std::uint16_t>(kFirst + position_ % kCount);
  }

 private:
  static constexpr std::uint32_t kStep = 0x1E35;
  static_assert(kStep % 2 == 1, "an odd step passes through a power of two of numbers");
  std::uint32_t position_;
};

}  // namespace rdmc::port
