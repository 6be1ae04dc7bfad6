// The other end of a queue pair in a fuzz target. It turns the fuzzer's decisions into datagrams with a
// correct ICRC or seal. Most of these are datagrams that a peer could send next. So the fuzzer's bytes do not
// only reach the first checks, but also the connection.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "dataplane/fabric/connection_blob.hpp"
#include "dataplane/roce/icrc.hpp"
#include "tests/dataplane/roce/opcodes.hpp"
#include "tests/fuzz/watched_port.hpp"
#include "tests/fuzz/write_headers.hpp"

namespace rdmc::fuzz {

inline constexpr std::uint32_t kPathMtu = 256;

/// A region whose remote key the peer knows.
struct Target {
  RemoteKey key{};
  std::uint32_t bytes = 0;
};

class Peer {
 public:
  struct Kind {
    Qpn qpn{};
    bool foreign = false, selective_repeat = false;
    std::uint64_t host_id = 0;
    bool icrc_optional = false;
    bool encrypts = false;
  };
  Peer(const Address& address, const Kind& kind) : address_(address), kind_(kind) {}

  fabric::ConnectionInfo info() const {
    return {.shared = address_,
            .bulk_port = bulk_port(),
            .qpn = kind_.qpn,
            .first_psn = first_,
            .path_mtu = kPathMtu,
            .receive_window = 1 << 16,
            .selective_repeat = kind_.selective_repeat,
            .foreign = kind_.foreign,
            .icrc_optional = kind_.icrc_optional,
            .host_id = kind_.host_id,
            .key_share = kind_.encrypts ? std::optional(kShare) : std::nullopt};
  }
  /// Connects the peer. `flow` is the port's flow that gets the requests of this connection.
  void meet(const fabric::ConnectionInfo& ours, port::FlowId flow) {
    ours_ = ours;
    flow_ = flow;
    next_ = first_;
    last_sent_ = ours.first_psn - 1;
    if (kind_.encrypts) sealer_ = *crypto::PacketSealer::make(*crypto::packet_key(*ours.key_share, kShare));
  }
  /// Must be called for each packet that the fabric sends, to any queue pair.
  void on_sent(const roce::Packet& packet) {
    if (packet.bth.destination != kind_.qpn) return;
    if (roce::is_answer(packet.bth.opcode) || packet.bth.opcode == roce::Opcode::congestion_notification)
      return;
    last_sent_ = packet.bth.psn;
    if (packet.bth.opcode == roce::Opcode::read_request) asked_ = packet.reth.length;
  }

  /// Makes one datagram from the input.
  WatchedPort::Arrival packet(Input& input, std::span<const Target> targets);
  /// Makes the datagrams of a whole message, or an acknowledgement of all packets, as a correct peer would
  /// send them. The input decides which datagrams are lost. The packets of an X_WRITE form one train.
  std::vector<WatchedPort::Arrival> message(Input& input, std::span<const Target> targets);

 private:
  std::uint16_t bulk_port() const { return kind_.foreign ? address_.port : 50'001; }
  static Target pick(Input& input, std::span<const Target> targets) {
    const std::uint8_t which = input.next();
    if (which < targets.size()) return targets[which];
    return {.key = RemoteKey{which}, .bytes = 64};
  }
  static std::uint64_t address_in(Input& input, const Target& target);
  std::size_t payload_bytes(Input& input, std::uint8_t how) const;
  std::vector<std::byte> seal(const roce::Packet& packet, std::span<const std::byte> payload,
                              std::uint16_t identification, bool shared);
  WatchedPort::Arrival arrival(std::vector<std::byte> bytes, bool shared) const {
    const auto segment = static_cast<std::uint32_t>(bytes.size());
    return {.flow = shared ? port::kSharedFlow : flow_,
            .source = source(),
            .bytes = std::move(bytes),
            .segment_bytes = segment};
  }
  Address source() const {
    Address from = address_;
    from.port = bulk_port();
    return from;
  }

  static constexpr crypto::KeyShare kShare{std::byte{1}};

  Address address_;
  Kind kind_;
  const Psn first_{0xFFFFF8};
  fabric::ConnectionInfo ours_;
  port::FlowId flow_{};
  Psn next_, last_sent_;
  std::uint32_t asked_ = 0;  ///< The length of the last READ request from the local side.
  std::optional<crypto::PacketSealer> sealer_;
};

namespace detail {

using roce::Opcode;

/// Returns a payload of ascending byte values. So each byte of a packet shows its position.
inline std::vector<std::byte> ramp(std::size_t bytes, std::uint8_t start) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(start + i);
  return out;
}

inline bool carries_payload(Opcode o) {
  return roce::is_read_response(o) || roce::is_send(o) || roce::is_write(o) || roce::is_x_write(o);
}

}  // namespace detail

inline std::uint64_t Peer::address_in(Input& input, const Target& target) {
  const std::uint8_t at = input.next();
  if (at == 0xFF) return std::uint64_t{0} - input.next();
  return at < 0x80 ? at * std::uint64_t{8} : target.bytes - (at & 0x7FU);
}

inline std::size_t Peer::payload_bytes(Input& input, std::uint8_t how) const {
  switch (how & 3) {
    case 0: return kPathMtu;
    case 1: return input.next();
    case 2: return std::min<std::size_t>(kPathMtu, asked_);
    default: return kPathMtu + input.next() - 128;
  }
}

inline std::vector<std::byte> Peer::seal(const roce::Packet& packet, std::span<const std::byte> payload,
                                         std::uint16_t identification, bool shared) {
  const auto header = write_headers(packet);
  const std::size_t pad = packet.bth.pad_bytes;
  std::vector<std::byte> bytes(header);
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  if (sealer_) {
    bytes.resize(bytes.size() + pad + crypto::kSealBytes);
    sealer_->seal(header, payload, bytes.data() + header.size(), &bytes[bytes.size() - crypto::kSealBytes]);
    return bytes;
  }
  bytes.resize(bytes.size() + pad + roce::kIcrcBytes);
  Address to = ours_.shared;
  if (!shared) to.port = ours_.bulk_port;
  const std::uint32_t icrc =
      roce::Icrc(source(), to).compute(identification, bytes.size(), header, payload, pad);
  roce::store_icrc(&bytes[bytes.size() - roce::kIcrcBytes], icrc);
  return bytes;
}

inline WatchedPort::Arrival Peer::packet(Input& input, std::span<const Target> targets) {
  using roce::Opcode;
  const Opcode opcode = roce::testing::kOpcodes[input.next() % roce::testing::kOpcodes.size()];
  const std::uint8_t shape = input.next();
  const std::uint8_t odd = (shape & 0x80) != 0 ? input.next() : 0;
  const bool answer = roce::is_answer(opcode);

  roce::Packet packet;
  packet.bth = {.opcode = opcode, .ack_request = (shape & 0x40) != 0, .destination = ours_.qpn};
  const Psn expected = answer ? last_sent_ : next_;
  switch (shape & 7) {
    case 0:
    case 1:
    case 2: packet.bth.psn = expected; break;
    case 3: packet.bth.psn = expected - input.next(); break;
    case 4: packet.bth.psn = expected + input.next(); break;
    case 5: packet.bth.psn = Psn(input.next32()); break;
    case 6: packet.bth.psn = expected + 1; break;
    default: packet.bth.psn = expected - 1; break;
  }
  if (!answer && packet.bth.psn == next_) next_ = next_.next();
  const auto payload = detail::carries_payload(opcode) ? detail::ramp(payload_bytes(input, shape >> 3), shape)
                                                       : detail::ramp(0, 0);
  const auto bytes = static_cast<std::uint32_t>(payload.size());
  packet.bth.pad_bytes = static_cast<std::uint8_t>(-bytes & 3);

  if (answer) {
    const std::uint8_t syndrome = input.next();
    packet.aeth = {.syndrome = syndrome < 0x80 ? syndrome : std::uint8_t{0x1F}, .msn = input.next()};
    packet.original = packet.aeth.msn;
  } else if (!roce::is_send(opcode) || opcode >= Opcode::send_last_invalidate) {
    const Target target = pick(input, targets);
    const std::uint64_t at = address_in(input, target);
    packet.invalidated = target.key;
    packet.reth = {.address = at, .key = target.key, .length = bytes};
    packet.atomic = {.address = at, .key = target.key, .swap_or_add = input.next(), .compare = 0};
    packet.x_write = {.address = at,
                      .key = target.key,
                      .immediate = 5,
                      .remaining = bytes,
                      .begins_unordered = (shape & 4) != 0};
    if (opcode == Opcode::write_first || opcode == Opcode::read_request || opcode == Opcode::x_write)
      packet.reth.length = packet.x_write.remaining = bytes + std::uint32_t{input.next()} * 8;
  }
  std::vector<std::byte> bitmap;
  if (opcode == Opcode::x_acknowledge) {
    packet.x_ack = {.newest = last_sent_ - (packet.aeth.msn & 7),
                    .words = static_cast<std::uint8_t>(input.next() & 35)};
    bitmap.assign(std::size_t{packet.x_ack.words} * 4, static_cast<std::byte>(input.next()));
    packet.x_ack.bitmap = bitmap.data();
  }
  packet.immediate = 0x1234;

  if ((odd & 1) != 0) packet.bth.destination = Qpn{input.next()};
  if ((odd & 2) != 0) packet.bth.partition_key = input.next();
  if ((odd & 4) != 0) packet.bth.pad_bytes = odd >> 6;
  const bool shared = kind_.foreign || (answer && !roce::is_read_response(opcode)) != ((odd & 8) != 0);
  auto datagram = seal(packet, payload, 0, shared);
  if ((odd & 16) != 0) datagram[input.next() % datagram.size()] ^= std::byte{0x10};
  auto out = arrival(std::move(datagram), shared);
  if ((odd & 32) != 0) out.source.bytes[3] ^= 0x40;
  if ((odd & 64) != 0) out.source.port ^= 0x100;
  out.congestion_experienced = (odd & 128) != 0;
  return out;
}

inline std::vector<WatchedPort::Arrival> Peer::message(Input& input, std::span<const Target> targets) {
  using roce::Opcode;
  const std::uint8_t what = input.next();
  const std::uint32_t total = std::uint32_t{input.next()} * 8 + (what >> 6);
  const std::uint8_t lost = input.next();
  const bool send = (what & 1) != 0, immediate = (what & 2) != 0, apart = (what & 4) != 0;
  const Target target = send ? Target{} : pick(input, targets);
  const std::uint64_t address = send ? 0 : address_in(input, target);
  const bool extended = kind_.selective_repeat && !send;

  std::vector<WatchedPort::Arrival> out;
  const std::uint32_t packets = total == 0 ? 1 : (total - 1) / kPathMtu + 1;
  for (std::uint32_t i = 0; i < packets; ++i, next_ = next_.next()) {
    const std::uint32_t at = i * kPathMtu, bytes = std::min(kPathMtu, total - at);
    const bool first = i == 0, last = i + 1 == packets;
    const int place = first ? (last ? 4 + immediate : 0) : (last ? 2 + immediate : 1);
    roce::Packet packet;
    packet.bth = {.opcode = static_cast<Opcode>((send ? 0 : value_of(Opcode::write_first)) + place),
                  .ack_request = last,
                  .pad_bytes = static_cast<std::uint8_t>(-bytes & 3),
                  .destination = ours_.qpn,
                  .psn = next_};
    const std::uint32_t in_train = apart || !extended ? 0 : i % WatchedPort::kTrainSegments;
    if (extended)
      packet.bth.opcode = !last       ? Opcode::x_write
                          : immediate ? Opcode::x_write_last_immediate
                                      : Opcode::x_write_last;
    packet.reth = {.address = address, .key = target.key, .length = total};
    packet.x_write = {.address = address + at,
                      .key = target.key,
                      .immediate = 7,
                      .remaining = total - at,
                      .identification = static_cast<std::uint16_t>(in_train),
                      .begins_unordered = immediate && at == 0};
    packet.immediate = 7;
    auto datagram =
        seal(packet, detail::ramp(bytes, what), static_cast<std::uint16_t>(in_train), kind_.foreign);
    if (in_train > 0) {
      out.back().bytes.insert(out.back().bytes.end(), datagram.begin(), datagram.end());
      continue;
    }
    out.push_back(arrival(std::move(datagram), kind_.foreign));
  }
  std::erase_if(out, [&, i = 0](const auto&) mutable { return (lost >> (i++ & 7) & 1) != 0; });
  return out;
}

}  // namespace rdmc::fuzz
