// Measures the speed of a fabric on this host. Makes two endpoints of the fabric, and writes from the memory
// of one endpoint to the memory of the other. One core is used on each side. The caller's thread is the
// sender.
#pragma once

#include <cstdint>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/fabric/standard_fabrics.hpp"

namespace rdmc::tools {

struct SelfTest {
  double seconds = 0;
  std::uint64_t bytes = 0;  ///< The number of bytes that have arrived and were acknowledged.
  std::uint32_t path_mtu = 0;
  bool icrc = true;
  double gigabits_per_second() const { return seconds > 0 ? 8e-9 * static_cast<double>(bytes) / seconds : 0; }
};

/// Writes from `sending` to `receiving` for `time`, and then compares the memories. Errors: peer_failed if
/// the connection broke, timed_out if nothing arrived for 5 s, corrupt, and those of the fabrics.
Result<SelfTest> run_self_test(fabric::OpenedFabric sending, fabric::OpenedFabric receiving, Duration time);

}  // namespace rdmc::tools
