// Chooses the UDP port numbers that a driver gives to the flows of a port. The packets of a connection leave
// from the port number of its flow. Networks with several paths and NICs with several queues use this number
// to distinguish flows. RoCEv2 reserves the upper quarter of the port numbers for such source ports (Annex
// A17.9.2). The class is pure: the caller supplies a random start.
#pragma once

#include <cstdint>

namespace rdmc::port {

class SourcePorts {
 public:
  static constexpr std::uint32_t kFirst = 0xC000, kCount = 0x4000;

  explicit SourcePorts(std::uint32_t start = 0) : position_(start) {}

  /// Returns the next port number. The numbers are spread over the range. Each number is returned once in
  /// kCount calls.
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
