// How fast a fabric is on this host, tried out: an endpoint on each of two of it, and writes from one
// memory to the other for a while. One core of each side works; the caller's thread is the sender.
#pragma once

#include <cstdint>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/fabric/standard_fabrics.hpp"

namespace rdmc::tools {

struct SelfTest {
  double seconds = 0;
  std::uint64_t bytes = 0;  ///< that arrived and were acknowledged
  std::uint32_t path_mtu = 0;
  bool icrc = true;
  double gigabits_per_second() const { return seconds > 0 ? 8e-9 * static_cast<double>(bytes) / seconds : 0; }
};

/// Writes from one to the other for `time`, then compares the memories. Errors: peer_failed (the connection
/// broke), timed_out (nothing arrived for 5 s), corrupt, those of the fabrics.
Result<SelfTest> run_self_test(fabric::OpenedFabric sending, fabric::OpenedFabric receiving, Duration time);

}  // namespace rdmc::tools
