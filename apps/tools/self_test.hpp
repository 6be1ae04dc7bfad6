// How fast a fabric is on this host, tried out: two of its ports, an endpoint on each, and writes from one
// memory to the other for a while. One core of each side works; the caller's thread is the sender.
#pragma once

#include <array>
#include <cstdint>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/port/driver.hpp"

namespace rdmc::tools {

struct SelfTest {
  double seconds = 0;
  std::uint64_t bytes = 0;  ///< that arrived and were acknowledged
  std::uint32_t path_mtu = 0;
  bool icrc = true;
  double gigabits_per_second() const { return seconds > 0 ? 8e-9 * static_cast<double>(bytes) / seconds : 0; }
};

/// Opens the pair with `driver` and writes for `time`, then compares the memories. Errors: those of opening a
/// port; peer_failed (the connection broke), timed_out (nothing arrived for 2 s), corrupt.
Result<SelfTest> run_self_test(port::Driver& driver, const std::array<port::PortRequest, 2>& pair,
                               Duration time);

}  // namespace rdmc::tools
