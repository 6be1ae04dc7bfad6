// Common parts of the tests of the udp driver: ports with separate loopback addresses, trains made from a
// pattern, and receive functions with a time limit.
#pragma once

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/random.hpp"
#include "dataplane/port/udp_port.hpp"

namespace rdmc::port::test {

using Bytes = std::vector<std::byte>;

inline Address loopback(std::uint8_t host, bool ipv6 = false) {
  if (!ipv6) return Address::ipv4(127, 0, 7, host, 0);
  Address address{.ipv6 = true};
  address.bytes[15] = 1;
  return address;
}

inline std::unique_ptr<Port> open(UdpPortOptions options) {
  auto port = open_udp_port(options);
  BOOST_REQUIRE_MESSAGE(port.has_value(), (port ? "" : port.error().what));
  return std::move(*port);
}

inline std::unique_ptr<Port> open(std::uint8_t host) {
  return open({.address = loopback(host)});
}

inline Bytes random_bytes(std::size_t size, std::uint64_t seed) {
  Random random(seed);
  Bytes bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

inline Address address_of(const Port& port, FlowId flow) {
  Address address = port.info().address;
  address.port = port.udp_port(flow);
  return address;
}

/// A train whose bytes are in one piece.
struct Sendable {
  Bytes bytes;
  iovec piece{};
  TxTrain train{};

  Sendable(Bytes content, std::uint32_t segment, const Address& destination, FlowId source = kSharedFlow)
      : bytes(std::move(content)), piece{bytes.data(), bytes.size()} {
    train.destination = destination;
    train.source = source;
    train.pieces = std::span(&piece, 1);
    train.segment_bytes = segment;
    train.total_bytes = static_cast<std::uint32_t>(bytes.size());
  }
  Sendable(const Sendable&) = delete;
  Sendable& operator=(const Sendable&) = delete;
};

inline void send(Port& port, const TxTrain& train) {
  BOOST_REQUIRE_EQUAL(port.send_burst(std::span(&train, 1)), 1);
}

inline void send(Port& port, Bytes bytes, std::uint32_t segment, const Address& destination,
                 FlowId source = kSharedFlow) {
  const Sendable sendable(std::move(bytes), segment, destination, source);
  send(port, sendable.train);
}

class NoPlan : public ScatterPlanner {
 public:
  std::size_t plan(FlowId, std::uint32_t, std::span<iovec>) override { return 0; }
};

/// Gives the same scatter list to the first train of every burst.
class FixedPlan : public ScatterPlanner {
 public:
  explicit FixedPlan(std::vector<iovec> pieces) : pieces_(std::move(pieces)) {}
  std::size_t plan(FlowId, std::uint32_t ahead, std::span<iovec> pieces) override {
    if (ahead > 0) return 0;
    std::ranges::copy(pieces_, pieces.begin());
    return pieces_.size();
  }

 private:
  std::vector<iovec> pieces_;
};

inline Bytes gather(const RxTrain& train) {
  Bytes bytes;
  for (const iovec& piece : train.pieces) {
    const auto* from = static_cast<const std::byte*>(piece.iov_base);
    bytes.insert(bytes.end(), from, from + piece.iov_len);
  }
  BOOST_TEST(bytes.size() == train.total_bytes);
  return bytes;
}

struct Datagram {
  FlowId flow;
  Address source;
  Bytes bytes;
  bool congestion_experienced = false;
};

/// Appends the datagrams of a train to `into`, one for each segment.
inline void cut(const RxTrain& train, std::vector<Datagram>& into) {
  const Bytes bytes = gather(train);
  for (std::size_t at = 0; at < bytes.size(); at += train.segment_bytes) {
    const std::size_t end = std::min<std::size_t>(bytes.size(), at + train.segment_bytes);
    into.push_back({train.flow, train.source,
                    Bytes(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                          bytes.begin() + static_cast<std::ptrdiff_t>(end)),
                    train.congestion_experienced});
  }
}

inline constexpr Duration kPatience = seconds(10);

/// Receives bursts until `enough` returns true for a train. Fails the test if that takes longer than
/// kPatience.
inline void receive_until(Port& port, ScatterPlanner& planner,
                          const std::function<bool(const RxTrain&)>& enough) {
  const Time deadline = monotonic_now() + kPatience;
  std::array<RxTrain, 16> trains;
  for (;;) {
    const std::size_t count = port.receive_burst(planner, trains);
    bool done = false;
    for (const RxTrain& train : std::span(trains).first(count)) done = enough(train) || done;
    if (done) return;
    BOOST_REQUIRE(monotonic_now() < deadline);
    if (count == 0) port.wait(deadline);
  }
}

inline std::vector<Datagram> receive_datagrams(Port& port, std::size_t count) {
  std::vector<Datagram> datagrams;
  NoPlan no_plan;
  if (count == 0) return datagrams;
  receive_until(port, no_plan, [&](const RxTrain& train) {
    cut(train, datagrams);
    return datagrams.size() >= count;
  });
  return datagrams;
}

}  // namespace rdmc::port::test
