// Two hosts, each with a software fabric, and the cable between them. The test advances the time.
#pragma once

#include <boost/test/unit_test.hpp>

#include <memory>
#include <utility>

#include "dataplane/base/random.hpp"
#include "dataplane/fabric/software_fabric.hpp"
#include "tests/dataplane/fabric/cable_port.hpp"

namespace rdmc::fabric::testing {

struct CableEnd {
  bool same_host_only = false, icrc_on_loopback = false, loses_uncut_trains = false;
  std::uint64_t host_id = 0;
  bool encrypt = false;
  std::uint32_t bulk_flows = SoftwareFabricOptions{}.bulk_flows;
};

/// The port of a host, and the fabric above the port.
struct CableHost {
  explicit CableHost(std::uint8_t number, const CableEnd& end = {})
      : random(number),
        port(number, end.same_host_only, end.loses_uncut_trains),
        fabric(port, {.entropy = [this] { return static_cast<std::uint32_t>(random.next()); },
                      .host_id = end.host_id,
                      .icrc_on_loopback = end.icrc_on_loopback,
                      .bulk_flows = end.bulk_flows,
                      .encrypt = end.encrypt}) {}
  Random random;
  CablePort port;
  SoftwareFabric fabric;
};

template <typename Host = CableHost>
struct HostPair {
  explicit HostPair(const CableEnd& end_a = {}, const CableEnd& end_b = {}) : a(1, end_a), b(2, end_b) {
    a.port.plug_into(b.port);
    b.port.plug_into(a.port);
  }
  Time now{1'000'000'000};
  Host a, b;
};

/// Two hosts with connections. turn() gives each fabric a turn.
struct Cable : HostPair<> {
  using HostPair::HostPair;
  /// Connects a new queue pair of `a` with a new queue pair of `b`.
  std::pair<std::unique_ptr<QueuePair>, std::unique_ptr<QueuePair>> connect(
      const QueuePairOptions& options_a = {}, const QueuePairOptions& options_b = {}) {
    auto at_a = *a.fabric.create_queue_pair(options_a);
    auto at_b = *b.fabric.create_queue_pair(options_b);
    BOOST_REQUIRE(at_a->connect(at_b->local_blob()));
    BOOST_REQUIRE(at_b->connect(at_a->local_blob()));
    return {std::move(at_a), std::move(at_b)};
  }
  void turn(int times = 1) {
    for (; times > 0; --times) {
      now = now + microseconds(20);
      a.fabric.progress(now);
      b.fabric.progress(now);
    }
  }
};

}  // namespace rdmc::fabric::testing
