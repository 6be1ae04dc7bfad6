// A cable for tests of a fabric: what one end sends lies at the other until it is asked for, and a test says
// how much an end takes and when it is readable. Each end belongs to the test.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/random.hpp"
#include "dataplane/fabric/software_fabric.hpp"
#include "dataplane/port/port.hpp"

namespace rdmc::fabric::testing {

class CablePort final : public port::Port {
 public:
  explicit CablePort(std::uint8_t host, bool same_host_only = false)
      : CablePort(Address::ipv4(10, 0, 0, host, 4791), same_host_only) {}
  explicit CablePort(const Address& address, bool same_host_only = false) {
    info_ = {.driver = "cable",
             .address = address,
             .mtu = 9000,
             .train_segments = 64,
             .same_host_only = same_host_only,
             .receive_buffer_bytes = 1 << 20};
  }
  void plug_into(CablePort& other) { other_ = &other; }

  const port::PortInfo& info() const noexcept override { return info_; }
  Result<port::FlowId> open_flow() override { return port::FlowId{++flows_}; }
  std::uint16_t udp_port(port::FlowId flow) const override {
    return flow == port::kSharedFlow ? info_.address.port
                                     : static_cast<std::uint16_t>(50'000 + value_of(flow));
  }
  void close_flow(port::FlowId) override {}
  /// The next process at this address gets the same UDP ports.
  void forget_flows() { flows_ = 0; }

  std::size_t send_burst(std::span<const port::TxTrain> trains) override {
    std::size_t taken = 0;
    for (; taken < trains.size() && room > 0; ++taken, --room) {
      std::vector<std::byte> bytes;
      for (const iovec& piece : trains[taken].pieces) {
        const auto* const from = static_cast<const std::byte*>(piece.iov_base);
        bytes.insert(bytes.end(), from, from + piece.iov_len);
      }
      Address source = info_.address;
      source.port = udp_port(trains[taken].source);
      sent.push_back(bytes);
      if (loses()) continue;
      other_->arrived_.push_back(
          {trains[taken].destination.port, source, trains[taken].segment_bytes, std::move(bytes)});
    }
    return taken;
  }
  std::size_t receive_burst(port::LandingPlanner&, std::span<port::RxTrain> out) override {
    read_.clear();
    std::size_t count = 0;
    while (readable && count < out.size() && !arrived_.empty()) {
      read_.push_back(std::move(arrived_.front()));
      arrived_.pop_front();
      Arrived& train = read_.back();
      train.piece = {train.bytes.data(), train.bytes.size()};
      const bool shared = train.port == info_.address.port;
      out[count++] = {.flow = shared ? port::kSharedFlow : port::FlowId{train.port - 50'000u},
                      .source = train.source,
                      .pieces = {&train.piece, 1},
                      .segment_bytes = train.segment_bytes,
                      .total_bytes = static_cast<std::uint32_t>(train.bytes.size()),
                      .identification = train.identification};
    }
    return count;
  }
  /// A datagram to the shared flow from somebody who is not on the cable; its IPv4 identification, if this
  /// port is to see it.
  void deliver(const Address& source, std::vector<std::byte> bytes,
               std::optional<std::uint16_t> identification = std::nullopt) {
    const auto size = static_cast<std::uint32_t>(bytes.size());
    arrived_.push_back({info_.address.port, source, size, std::move(bytes), identification});
  }
  void wait(Time) override {}
  void wake() noexcept override {}
  const port::PortCounters& counters() const noexcept override { return counters_; }

  std::size_t room = SIZE_MAX;  ///< trains that it takes before it is full
  bool readable = true;
  std::vector<std::vector<std::byte>> sent;
  std::function<bool()> loses = [] { return false; };  ///< the next train, on the way
  bool has_arrivals() const { return !arrived_.empty(); }

 private:
  struct Arrived {
    std::uint16_t port;
    Address source;
    std::uint32_t segment_bytes;
    std::vector<std::byte> bytes;
    std::optional<std::uint16_t> identification{};
    iovec piece{};
  };
  port::PortInfo info_;
  port::PortCounters counters_;
  CablePort* other_ = nullptr;
  std::uint32_t flows_ = 0;
  std::deque<Arrived> arrived_, read_;
};

struct CableEnd {
  bool same_host_only = false, icrc_on_loopback = false;
  std::uint64_t host_id = 0;
};

/// A port and the fabric over it.
struct CableHost {
  explicit CableHost(std::uint8_t number, const CableEnd& end = {})
      : random(number),
        port(number, end.same_host_only),
        fabric(port, {.entropy = [this] { return static_cast<std::uint32_t>(random.next()); },
                      .host_id = end.host_id,
                      .icrc_on_loopback = end.icrc_on_loopback}) {}
  Random random;
  CablePort port;
  SoftwareFabric fabric;
};

/// Two hosts and the cable between them.
template <typename Host = CableHost>
struct HostPair {
  explicit HostPair(const CableEnd& end_a = {}, const CableEnd& end_b = {}) : a(1, end_a), b(2, end_b) {
    a.port.plug_into(b.port);
    b.port.plug_into(a.port);
  }
  Time now{1'000'000'000};
  Host a, b;
};

}  // namespace rdmc::fabric::testing
