// A fabric that receives captured packets of the kernel's Soft-RoCE (docs/interop). It takes the part of the
// endpoint to which the packets were sent: it has the same numbers and keys, and posts the same work
// requests.
#pragma once

#include <boost/test/unit_test.hpp>

#include <deque>
#include <map>
#include <set>
#include <string>

#include "dataplane/base/bytes.hpp"
#include "dataplane/fabric/connection_blob.hpp"
#include "dataplane/fabric/management_queue_pair.hpp"
#include "tests/dataplane/capture_file.hpp"
#include "tests/dataplane/fabric/cable_port.hpp"

namespace rdmc::fabric::testing {

using rdmc::testing::Captured;
using rdmc::testing::read_capture;

inline roce::Opcode opcode_of(const Captured& packet) {
  return static_cast<roce::Opcode>(packet.datagram.at(0));
}

/// The counters of dropped packets that are not 0, by name.
using Drops = std::map<std::string, std::uint64_t>;

class Meeting {
 public:
  static constexpr std::uint32_t kReceiveBytes = 16 << 10, kRegionBytes = 64 << 10;
  static constexpr int kReceives = 200;

  explicit Meeting(const std::vector<Captured>& packets) : packets_(packets) {
    learn();
    port.emplace(host_);
    port->loses = [] { return true; };
    fabric.emplace(*port, SoftwareFabricOptions{.entropy = [this] { return next_number(); }});
    management.emplace(*fabric);
    queue_pair = *fabric->create_queue_pair({.selective_repeat = false, .path_mtu = path_mtu_});
    for (const std::uint32_t key : keys_) {
      memories.emplace_back(kRegionBytes);
      numbers_.push_back(key);
      regions_.push_back(*fabric->register_memory(
          memories.back(), MemoryUse::general,
          RemoteAccess::write | RemoteAccess::read | RemoteAccess::atomic | RemoteAccess::invalidate));
    }
    receives.resize(kReceives, std::vector<std::byte>(kReceiveBytes));
    for (auto& receive : receives) BOOST_REQUIRE(queue_pair->post_receive({.bytes = receive}));
    BOOST_REQUIRE(queue_pair->connect(encode({.shared = peer(),
                                              .bulk_port = 4791,
                                              .qpn = peer_qpn_,
                                              .first_psn = peer_psn_,
                                              .path_mtu = path_mtu_,
                                              .receive_window = 1 << 20,
                                              .foreign = true})));
  }

  bool is_peers(std::size_t i) const { return same_ip(packets_[i].destination, host_); }

  /// Replays packet `i`. A packet of the peer is delivered. For a packet of the local side, the work request
  /// that caused it is posted again. Only this function advances the time, each time by the same step.
  void play(std::size_t i) {
    now_ = now_ + microseconds(20);
    if (is_peers(i))
      deliver(packets_[i].source, packets_[i].datagram);
    else
      post(i);
  }
  void play_until(std::size_t end) {
    for (std::size_t i = 0; i < end; ++i) play(i);
  }
  void deliver(const Address& source, std::vector<std::byte> datagram,
               std::optional<std::uint16_t> identification = std::nullopt) {
    port->deliver(source, std::move(datagram), identification);
    turn();
  }
  /// Computes the ICRC of a datagram from the peer, and writes the ICRC into the datagram.
  void seal(const Address& source, std::vector<std::byte>& datagram, std::size_t header_bytes,
            std::size_t pad) const {
    const std::span<const std::byte> covered =
        std::span(datagram).first(datagram.size() - pad - roce::kIcrcBytes);
    const std::uint32_t icrc =
        roce::Icrc(source, host_)
            .compute(0, datagram.size(), covered.first(header_bytes), covered.subspan(header_bytes), pad);
    roce::store_icrc(&datagram[datagram.size() - roce::kIcrcBytes], icrc);
  }

  Drops drops() const {
    Drops drops;
    const auto count = [&](std::string_view what, std::uint64_t times) {
      if (times != 0) drops[std::string(what)] = times;
    };
    const auto& counters = fabric->counters();
    for (std::size_t i = 0; i < counters.parse_errors.size(); ++i)
      count(name(static_cast<roce::ParseError>(i)), counters.parse_errors[i]);
    count("icrc", counters.icrc_errors);
    count("unknown queue pair", counters.unknown_queue_pair);
    count("wrong source", counters.wrong_source);
    const auto connection = fabric->connection_counters();
    count("duplicate", connection.duplicates);
    count("out of order", connection.out_of_order);
    count("ghost", connection.ghosts);
    count("stale", connection.stale);
    count("refused", connection.refused);
    count("bad response",
          queue_pair->error_cause() == "the peer answered a READ or atomic with something else");
    count("not ready", connection.not_ready);
    count("ignored", connection.ignored);
    return drops;
  }
  std::size_t poll() {
    std::array<Completion, 16> some;
    std::size_t polled = 0;
    while (const std::size_t count = queue_pair->poll_completions(some)) {
      for (const Completion& done : std::span(some).first(count))
        if (done.status == WorkStatus::success) ++polled;
    }
    return polled;
  }
  std::size_t datagrams_polled() {
    std::size_t polled = 0;
    for (ManagementDatagram out; management->poll(out);) ++polled;
    return polled;
  }
  const Address& peer() const { return peer_; }

  std::optional<CablePort> port;
  std::optional<SoftwareFabric> fabric;
  std::optional<ManagementQueuePair> management;
  std::vector<std::vector<std::byte>> receives;
  std::deque<std::vector<std::byte>> memories;
  std::unique_ptr<QueuePair> queue_pair;

 private:
  static bool same_ip(const Address& a, const Address& b) { return a.ipv6 == b.ipv6 && a.bytes == b.bytes; }

  /// Finds the addresses, numbers and keys in the capture. A packet's destination QPN is the QPN of the side
  /// that receives it.
  void learn() {
    bool found = false, request_of_peer = false, request_of_ours = false;
    for (const Captured& packet : packets_) {
      // In the lab of the captures, the local side has the first address of its network.
      const auto to = packet.destination.ip();
      const bool to_us = to[to.size() - 1] == 1;
      if (to_us && !found) {
        host_ = packet.destination;
        peer_ = packet.source;
        peer_.port = 4791;
        found = true;
      }
      const auto parsed = roce::parse_packet(packet.datagram);
      if (!parsed) continue;  // This is a management datagram.
      const bool answer = roce::is_answer(parsed->bth.opcode);
      (to_us ? our_qpn_ : peer_qpn_) = parsed->bth.destination;
      path_mtu_ = parsed->payload.size() > 1024 ? 4096 : path_mtu_;
      if (answer) continue;
      bool& known = to_us ? request_of_peer : request_of_ours;
      if (!known) (to_us ? peer_psn_ : our_psn_) = parsed->bth.psn;
      known = true;
      if (to_us && parsed->reth.length > 0) keys_.insert(value_of(parsed->reth.key));
    }
    BOOST_REQUIRE((found && value_of(our_qpn_) != 0 && value_of(peer_qpn_) != 0));
    numbers_ = {value_of(our_qpn_), our_psn_.value()};
  }
  std::uint32_t next_number() {
    if (numbers_.empty()) return ++spare_;
    const std::uint32_t number = numbers_.front();
    numbers_.pop_front();
    return number;
  }

  /// If packet `i` is the first packet of a work request of the local side, posts that work request.
  void post(std::size_t i) {
    using roce::Opcode;
    const auto first = roce::parse_packet(packets_[i].datagram);
    if (!first) return;
    const Opcode opcode = first->bth.opcode;
    sources_.emplace_back(kRegionBytes);
    auto& bytes = sources_.back();
    Result<void> posted;
    if (opcode == Opcode::read_request) {
      bytes.resize(first->reth.length);
      posted = queue_pair->post_read(
          {.bytes = bytes, .remote_address = first->reth.address, .remote_key = first->reth.key});
    } else if (opcode == Opcode::write_first || opcode == Opcode::write_only) {
      bytes.resize(first->reth.length);
      posted = queue_pair->post_write(
          {.bytes = bytes, .remote_address = first->reth.address, .remote_key = first->reth.key});
    } else if (opcode == Opcode::send_first || opcode == Opcode::send_only) {
      std::size_t length = 0;
      for (std::size_t at = i; at < packets_.size(); ++at) {
        const auto part = roce::parse_packet(packets_[at].datagram);
        if (!part || is_peers(at) || !roce::is_send(part->bth.opcode)) continue;
        length += part->payload.size();
        if (part->bth.opcode == Opcode::send_last || part->bth.opcode == Opcode::send_only) break;
      }
      bytes.resize(length);
      posted = queue_pair->post_send({.bytes = bytes});
    }
    BOOST_REQUIRE(posted.has_value());
    turn();
  }
  void turn() {
    for (int i = 0; i < 4; ++i) fabric->progress(now_);
  }

  const std::vector<Captured>& packets_;
  Address host_, peer_;
  Qpn our_qpn_{}, peer_qpn_{};
  Psn our_psn_, peer_psn_;
  std::uint32_t path_mtu_ = 1024;
  std::set<std::uint32_t> keys_;
  std::deque<std::uint32_t> numbers_;
  std::uint32_t spare_ = 1000;
  std::deque<std::vector<std::byte>> sources_;
  std::vector<std::unique_ptr<MemoryRegion>> regions_;
  Time now_ = Time{} + seconds(1);
};

}  // namespace rdmc::fabric::testing
