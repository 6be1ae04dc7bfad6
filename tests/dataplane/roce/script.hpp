// A script for one connection. A test gives packets to the connection as values of In, and gets the sent
// packets as lines of text. So it can compare whole exchanges. PSNs count from the first PSN of their
// direction. The payloads that arrive are a ramp of bytes (0, 1, 2, …). They are copied to the connection's
// destination.
#pragma once

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "dataplane/base/bytes.hpp"
#include "dataplane/roce/connection.hpp"
#include "dataplane/roce/credits.hpp"
#include "dataplane/roce/rnr.hpp"

namespace rdmc::roce::testing {

using Verdict = Arrival::Verdict;
using Lines = std::vector<std::string>;

inline constexpr RemoteKey kKey{0xABCD};
inline constexpr std::uint64_t kBase = 0x1000;
inline constexpr std::uint32_t kMtu = 256;

struct In {
  Opcode opcode;
  int psn = 0;
  std::size_t bytes = 0;
  bool ask = false;
  std::uint64_t at = 0;  ///< The remote address minus kBase.
  std::uint32_t length =
      /// The length in the RETH, or `remaining` of an X_WRITE. 0 in an X_WRITE means the number of bytes in
      /// this packet.
      0;
  std::uint32_t immediate = 0;
  RemoteKey key = kKey;  ///< For a SEND with invalidate, this is the key to invalidate.
  std::uint64_t swap_or_add = 0, compare = 0;
  bool marked = false;  ///< True if a congested switch has marked the packet.
  bool begins_unordered = false;
};

inline constexpr RemoteAccess kAnyAccess =
    RemoteAccess::write | RemoteAccess::read | RemoteAccess::atomic | RemoteAccess::invalidate;

class Script {
 public:
  explicit Script(ConnectionConfig config = {}, std::uint32_t first_psn = 0xFFFFFC)
      : send_first_(first_psn),
        receive_first_(first_psn ^ 3),
        memory_(1 << 16),
        source_(1 << 20),
        receives_(64),
        connection_((config.path_mtu = config.path_mtu == 1024 ? kMtu : config.path_mtu,
                     config.send_psn = send_first_, config.receive_psn = receive_first_, config),
                    regions_) {
    for (std::size_t i = 0; i < source_.size(); ++i) source_[i] = static_cast<std::byte>(i * 7);
    regions_.add(kKey, kBase, memory_, kAnyAccess);
  }

  Connection& connection() { return connection_; }
  /// Sets the queue in which packets wait on this host, for all later packets.
  void set_egress(const Egress& egress) { egress_ = egress; }
  /// Returns the delay in the last selective acknowledgement that was sent, in ns.
  std::uint32_t acknowledgement_delay() const { return acknowledgement_delay_; }
  RegionTable& regions() { return regions_; }
  std::span<std::byte> memory() { return memory_; }
  Time now() const { return now_; }

  // Actions of the peer follow.
  Arrival in(const In& p) {
    std::vector<std::byte> bytes(64);
    std::byte* at = bytes.data();
    const auto pad = static_cast<std::uint8_t>(-p.bytes & 3);
    at += write_bth(
        at, {.opcode = p.opcode, .ack_request = p.ask, .pad_bytes = pad, .psn = receive_first_ + p.psn});
    const Opcode o = p.opcode;
    const bool reth = o == Opcode::write_first || o == Opcode::write_only ||
                      o == Opcode::write_only_immediate || o == Opcode::read_request;
    if (reth) at += write_reth(at, {kBase + p.at, p.key, p.length});
    if (o == Opcode::send_last_immediate || o == Opcode::send_only_immediate ||
        o == Opcode::write_last_immediate || o == Opcode::write_only_immediate)
      at += write_immediate(at, p.immediate);
    if (is_atomic(o)) at += write_atomic(at, {kBase + p.at, p.key, p.swap_or_add, p.compare});
    if (o == Opcode::send_last_invalidate || o == Opcode::send_only_invalidate)
      at += write_invalidated(at, p.key);
    if (o >= Opcode::x_write)
      at += write_x_write(at, {.address = kBase + p.at,
                               .key = p.key,
                               .immediate = p.immediate,
                               .remaining = p.length != 0 ? p.length : static_cast<std::uint32_t>(p.bytes),
                               .begins_unordered = p.begins_unordered});
    bytes.resize(static_cast<std::size_t>(at - bytes.data()));
    for (std::size_t i = 0; i < p.bytes; ++i) bytes.push_back(static_cast<std::byte>(i));
    bytes.resize(bytes.size() + pad + kIcrcBytes);
    return hand_in(bytes, p.marked);
  }
  /// Gives a congestion notification to the connection.
  void notify() {
    std::vector<std::byte> bytes(kBthBytes + kNotificationBytes + kIcrcBytes);
    write_bth(bytes.data(), {.opcode = Opcode::congestion_notification, .becn = true});
    hand_in(bytes);
  }
  void ack(int psn, std::uint8_t syndrome = kAckSyndrome, std::uint32_t msn = 0) {
    std::vector<std::byte> bytes(kBthBytes + kAethBytes + kIcrcBytes);
    write_bth(bytes.data(), {.opcode = Opcode::acknowledge, .psn = send_first_ + psn});
    write_aeth(bytes.data() + kBthBytes, {syndrome, msn});
    hand_in(bytes);
  }
  /// Gives a READ response to the connection. The payload is a ramp.
  Arrival response(Opcode opcode, int psn, std::size_t payload, std::uint8_t syndrome = kAckSyndrome,
                   std::uint32_t msn = 0) {
    std::vector<std::byte> bytes(kBthBytes + kAethBytes);
    const auto pad = static_cast<std::uint8_t>(-payload & 3);
    std::size_t used =
        write_bth(bytes.data(), {.opcode = opcode, .pad_bytes = pad, .psn = send_first_ + psn});
    if (opcode != Opcode::read_response_middle) used += write_aeth(bytes.data() + used, {syndrome, msn});
    bytes.resize(used);
    for (std::size_t i = 0; i < payload; ++i) bytes.push_back(static_cast<std::byte>(i));
    bytes.resize(bytes.size() + pad + kIcrcBytes);
    return hand_in(bytes);
  }
  void atomic_ack(int psn, std::uint64_t original) {
    std::vector<std::byte> bytes(kBthBytes + kAethBytes + kAtomicAckBytes + kIcrcBytes);
    write_bth(bytes.data(), {.opcode = Opcode::atomic_acknowledge, .psn = send_first_ + psn});
    write_aeth(bytes.data() + kBthBytes, {kAckSyndrome, 0});
    write_original(bytes.data() + kBthBytes + kAethBytes, original);
    hand_in(bytes);
  }
  /// Gives a selective acknowledgement to the connection. It acknowledges all packets up to `cumulative`, and
  /// the packets with a '1' in `bitmap`. `before` is the time since the packet `newest` arrived at the peer.
  void x_ack(int cumulative, int newest, const std::string& bitmap = "", Duration before = {}) {
    std::vector<std::byte> bytes(kBthBytes + kAethBytes + kXAckFixedBytes);
    write_bth(bytes.data(), {.opcode = Opcode::x_acknowledge, .psn = send_first_ + cumulative});
    write_aeth(bytes.data() + kBthBytes, {kAckSyndrome, 0});
    const std::size_t words = (bitmap.size() + 31) / 32;
    write_x_ack(bytes.data() + kBthBytes + kAethBytes,
                {.newest = send_first_ + newest,
                 .arrival_ns = static_cast<std::uint32_t>((now_ - before - Time{}).ns),
                 .words = static_cast<std::uint8_t>(words)});
    for (std::size_t w = 0; w < words; ++w) {
      std::uint32_t bits = 0;
      for (std::size_t i = 0; i < 32 && 32 * w + i < bitmap.size(); ++i)
        bits |= static_cast<std::uint32_t>(bitmap[32 * w + i] == '1') << i;
      bytes.resize(bytes.size() + 4);
      store_be(bytes.data() + bytes.size() - 4, bits);
    }
    bytes.resize(bytes.size() + kIcrcBytes);
    hand_in(bytes);
  }

  // Actions of the local application follow.
  Result<void> post(SendOpcode opcode, std::size_t bytes, std::uint64_t work_id = 0) {
    return connection_.post_send({.work_id = work_id,
                                  .opcode = opcode,
                                  .bytes = std::span(source_).first(bytes),
                                  .remote_address = kBase,
                                  .remote_key = kKey,
                                  .immediate = 0x77});
  }
  /// Posts a READ. Returns the destination of the READ, which was filled with 0xEE.
  std::span<std::byte> read(std::size_t bytes, std::uint64_t work_id = 0) {
    auto& buffer = receives_.at(receives_used_++);
    buffer.assign(bytes, std::byte{0xEE});
    BOOST_REQUIRE(connection_.post_read(
        {.work_id = work_id, .bytes = buffer, .remote_address = kBase, .remote_key = kKey}));
    return buffer;
  }
  Result<void> atomic(SendOpcode opcode, std::uint64_t work_id, std::uint64_t swap_or_add,
                      std::uint64_t compare = 0) {
    return connection_.post_atomic({.work_id = work_id,
                                    .opcode = opcode,
                                    .remote_address = kBase + 8,
                                    .remote_key = kKey,
                                    .swap_or_add = swap_or_add,
                                    .compare = compare});
  }
  std::span<std::byte> receive(std::size_t bytes, std::uint64_t work_id = 0) {
    auto& buffer = receives_.at(receives_used_++);
    buffer.resize(bytes);
    BOOST_REQUIRE(connection_.post_receive({work_id, buffer}));
    return buffer;
  }

  // Functions for the time and for the sent packets follow.
  void wait(Duration span) { now_ = now_ + span; }
  /// Ends the burst, runs the timer if it is due, and returns the packets that are sent.
  Lines out() {
    connection_.end_of_burst(now_);
    if (connection_.next_deadline() <= now_) connection_.on_timer(now_);
    return sent();
  }
  /// Returns the packets that the connection sends, at most `room` of them.
  Lines sent(std::size_t room = 2048) {
    Lines lines;
    std::array<TxPacket, 2048> packets;
    const std::size_t count = connection_.poll_transmit(now_, std::span(packets).first(room), egress_);
    for (const TxPacket& packet : std::span(packets).first(count)) lines.push_back(describe(packet));
    return lines;
  }
  Lines completions() {
    static constexpr std::array kKinds{"send", "write", "receive", "receive_write", "read", "atomic"};
    Lines lines;
    WorkCompletion c;
    while (connection_.poll_completion(c)) {
      std::string line = fmt::format("{} {} ", kKinds[static_cast<std::size_t>(c.kind)], c.work_id);
      if (c.cause == FailureCause::none)
        fmt::format_to(std::back_inserter(line), "{}", c.byte_count);
      else
        line += c.flushed ? "flushed" : "failed";
      if (c.immediate) fmt::format_to(std::back_inserter(line), " immediate {}", *c.immediate);
      if (c.invalidated) line += " invalidated";
      if (c.kind == CompletionKind::atomic && c.cause == FailureCause::none)
        fmt::format_to(std::back_inserter(line), " was {}", c.original);
      lines.push_back(line);
    }
    return lines;
  }

 private:
  Arrival hand_in(const std::vector<std::byte>& bytes, bool marked = false) {
    const auto packet = parse_packet(bytes);
    BOOST_REQUIRE(packet.has_value());
    const Arrival arrival = connection_.on_packet(*packet, now_, marked);
    if (arrival.destination != nullptr)
      std::memcpy(arrival.destination, packet->payload.data(), packet->payload.size());
    return arrival;
  }

  std::string describe(const TxPacket& p) {
    std::vector<std::byte> bytes(p.header.begin(), p.header.begin() + p.header_bytes);
    bytes.insert(bytes.end(), p.payload.begin(), p.payload.end());
    bytes.resize(bytes.size() + p.pad_bytes + kIcrcBytes);
    last_payload_ = p.payload.data();
    const auto packet = parse_packet(bytes);
    BOOST_REQUIRE(packet.has_value());
    if (packet->bth.opcode == Opcode::congestion_notification) {
      BOOST_TEST((packet->bth.becn && packet->bth.psn.value() == 0 && !p.bulk));
      return "notification";
    }
    const bool answer =
        packet->bth.opcode == Opcode::acknowledge || packet->bth.opcode == Opcode::x_acknowledge;
    BOOST_TEST(p.bulk != answer);
    if (answer) return describe_answer(*packet);
    if (is_answer(packet->bth.opcode)) return describe_response(*packet);
    BOOST_TEST(p.extended_write == (packet->bth.opcode >= Opcode::x_write));
    if (packet->bth.opcode >= Opcode::read_request && packet->bth.opcode < Opcode::x_write)
      return describe_rd_atomic(*packet);
    static constexpr std::array kNames{"send_first",           "send_middle",  "send_last",
                                       "send_last_immediate",  "send_only",    "send_only_immediate",
                                       "write_first",          "write_middle", "write_last",
                                       "write_last_immediate", "write_only",   "write_only_immediate"};
    static constexpr std::array kOurs{"x_write", "x_write_last", "x_write_last_immediate"};
    const auto opcode = value_of(packet->bth.opcode);
    std::string line = fmt::format("{} {}:{}", opcode < 0xC0 ? kNames.at(opcode) : kOurs.at(opcode - 0xC0),
                                   packet->bth.psn - send_first_, packet->payload.size());
    const auto end = std::back_inserter(line);
    if (opcode >= 0xC0)
      fmt::format_to(end, "@{}/{}", packet->x_write.address - kBase, packet->x_write.remaining);
    if (packet->reth.length != 0) fmt::format_to(end, " of {}", packet->reth.length);
    if (opcode >= 0xC0 && packet->x_write.begins_unordered) line += " unordered";
    if (packet->bth.ack_request) line += " ask";
    return line;
  }
  /// Describes a request that is not among the first twelve opcodes of table 38.
  std::string describe_rd_atomic(const Packet& packet) const {
    const auto psn = packet.bth.psn - send_first_;
    switch (packet.bth.opcode) {
      case Opcode::read_request:
        return fmt::format("read {}@{} of {}{}", psn, packet.reth.address - kBase, packet.reth.length,
                           packet.bth.ack_request ? " ask" : "");
      case Opcode::compare_swap:
        return fmt::format("compare_swap {}@{} {} {}", psn, packet.atomic.address - kBase,
                           packet.atomic.compare, packet.atomic.swap_or_add);
      case Opcode::fetch_add:
        return fmt::format("fetch_add {}@{} {}", psn, packet.atomic.address - kBase,
                           packet.atomic.swap_or_add);
      default:
        return fmt::format("{} {}:{} key {}",
                           packet.bth.opcode == Opcode::send_last_invalidate ? "send_last_invalidate"
                                                                             : "send_only_invalidate",
                           psn, packet.payload.size(), value_of(packet.invalidated));
    }
  }
  std::string describe_response(const Packet& packet) const {
    static constexpr std::array kNames{"first", "middle", "last", "only"};
    const auto psn = packet.bth.psn - receive_first_;
    if (packet.bth.opcode == Opcode::atomic_acknowledge)
      return fmt::format("atomic {} msn {} was {}", psn, packet.aeth.msn, packet.original);
    const auto place = value_of(packet.bth.opcode) - value_of(Opcode::read_response_first);
    std::string line = fmt::format("{} {}:{}", kNames.at(place), psn, packet.payload.size());
    if (packet.bth.opcode != Opcode::read_response_middle)
      fmt::format_to(std::back_inserter(line), " msn {}", packet.aeth.msn);
    if (!packet.payload.empty())
      fmt::format_to(std::back_inserter(line), "@{}", last_payload_ - memory_.data());
    return line;
  }
  std::string describe_answer(const Packet& packet) {
    acknowledgement_delay_ = packet.x_ack.delay_ns;
    const auto psn = packet.bth.psn - receive_first_;
    const std::uint8_t syndrome = packet.aeth.syndrome;
    if (kind_of(syndrome) == AethKind::receiver_not_ready) return fmt::format("rnr {}", psn);
    if (syndrome == kSequenceError) return fmt::format("gap {}", psn);
    if (syndrome == kInvalidRequest) return fmt::format("invalid {}", psn);
    if (syndrome == kRemoteAccess) return fmt::format("access {}", psn);
    if (syndrome != kAckSyndrome)
      return fmt::format("ack {} msn {} credits {}", psn, packet.aeth.msn, kCreditCodes.at(syndrome));
    if (packet.bth.opcode != Opcode::x_acknowledge) return fmt::format("ack {} msn {}", psn, packet.aeth.msn);
    std::string bits;
    for (std::size_t w = 0; w < packet.x_ack.words; ++w) {
      const auto word = load_be<std::uint32_t>(packet.x_ack.bitmap + 4 * w);
      for (int i = 0; i < 32; ++i) bits += (word >> i & 1) != 0 ? '1' : '0';
    }
    bits.erase(bits.find_last_not_of('0') + 1);
    return fmt::format("ack {} msn {} newest {} [{}]", psn, packet.aeth.msn,
                       packet.x_ack.newest - receive_first_, bits);
  }

  Egress egress_;
  std::uint32_t acknowledgement_delay_ = 0;
  Psn send_first_, receive_first_;
  std::vector<std::byte> memory_, source_;
  std::vector<std::vector<std::byte>> receives_;
  std::size_t receives_used_ = 0;
  RegionTable regions_;
  Connection connection_;
  Time now_ = Time{} + seconds(1);
  const std::byte* last_payload_ = nullptr;  ///< The payload of the packet that was described last.
};

}  // namespace rdmc::roce::testing

/// Checks that two lists of lines are equal. This is a macro, so that Boost.Test reports the line of the
/// test.
#define CHECK_LINES(actual, ...)                                                                    \
  do {                                                                                              \
    const ::rdmc::roce::testing::Lines actual_lines = (actual), expected_lines{__VA_ARGS__};        \
    BOOST_CHECK_EQUAL_COLLECTIONS(actual_lines.begin(), actual_lines.end(), expected_lines.begin(), \
                                  expected_lines.end());                                            \
  } while (false)
