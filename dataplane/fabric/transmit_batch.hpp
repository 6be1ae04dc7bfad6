// The packets of a few trains on their way from the connections to the port: headers, trailers and the gather
// lists that tie them to payload. Filled, sealed and handed over in one turn; what the port had no room for
// stays for the next turn. Owned by the software fabric; refers to posted memory, so what refers to it is
// dropped before such memory may go away.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/crypto/packet_seal.hpp"
#include "dataplane/fabric/arrived_checksums.hpp"
#include "dataplane/port/port.hpp"
#include "dataplane/roce/connection.hpp"
#include "dataplane/roce/icrc.hpp"

namespace rdmc::fabric {

/// Where one connection's packets go and how they are sealed.
struct TransmitPath {
  port::FlowId source{};
  Address bulk, shared;
  roce::Icrc bulk_icrc, shared_icrc;
  bool icrc = true;  ///< false: both ends agreed to leave that field zero, and unread
  std::unique_ptr<crypto::PacketSealer> sealer;  ///< if there is one, it seals in the ICRC's place
  bool trains = true;                            ///< false: the peer wants datagrams one by one
  bool ecn_capable = false;                      ///< switches may mark the bulk packets
};

class TransmitBatch {
 public:
  static constexpr std::size_t kPackets = 256;

  /// `encrypted_bytes`: how much payload a turn has at most, where it is encrypted.
  explicit TransmitBatch(std::size_t encrypted_bytes = 0) : encrypted_(encrypted_bytes) {}

  bool empty() const { return next_train_ == trains_used_; }
  std::size_t room() const { return kPackets - packets_used_; }
  void clear() {
    packets_used_ = trains_used_ = next_train_ = pieces_used_ = encrypted_used_ = 0;
    ++filling_;
  }
  /// Counts how often it has been emptied: what was put in before is gone.
  std::uint64_t filling() const { return filling_; }

  /// Room to poll packets of one connection into; call `seal` with how many it filled.
  std::span<roce::TxPacket> space(std::size_t at_most) {
    return std::span(packets_).subspan(packets_used_, std::min(at_most, room()));
  }
  /// Groups the next `count` packets into trains as the port can send them and writes their identification
  /// and ICRC, or encrypts them.
  void seal(std::size_t count, const TransmitPath& path, const port::PortInfo& port,
            const ArrivedChecksums& arrived);

  /// Drops the unsent trains of one connection, those that refer to `memory`, or those of both: to their
  /// connection they are lost on the way. The path is the one that they were sealed with.
  void drop(const TransmitPath& path);
  void drop(std::span<const std::byte> memory);
  void drop(const TransmitPath& path, std::span<const std::byte> memory);

  /// Hands the unsent trains to the port. False if the port had no room for all.
  bool send(port::Port& port);

 private:
  template <typename Predicate>
  void drop_if(Predicate predicate);
  /// What seals one packet: a sealer, else an ICRC; null where none is wanted.
  struct Seal {
    crypto::PacketSealer* sealer;
    const roce::Icrc* icrc;
    const ArrivedChecksums& arrived;
    std::size_t trailer_bytes() const {
      return sealer != nullptr ? crypto::kSealBytes : std::size_t{roce::kIcrcBytes};
    }
    std::size_t datagram_bytes(const roce::TxPacket& packet) const {
      return packet.header_bytes + packet.payload.size() + packet.pad_bytes + trailer_bytes();
    }
  };
  void append(roce::TxPacket& packet, std::size_t index_in_train, std::size_t bytes, const Seal& seal);
  std::span<const std::byte> encrypt(const roce::TxPacket& packet, crypto::PacketSealer& sealer,
                                     std::byte* seal);

  std::array<roce::TxPacket, kPackets> packets_;
  std::array<std::array<std::byte, 4 + crypto::kSealBytes>, kPackets> trailers_;  // pad and ICRC or seal
  std::array<iovec, kPackets * 3> pieces_;
  std::array<port::TxTrain, kPackets> trains_;
  std::array<const TransmitPath*, kPackets> paths_;  // of the trains
  std::vector<std::byte> encrypted_;                 // payload of the packets in here
  std::uint64_t filling_ = 0;
  std::size_t encrypted_used_ = 0;
  std::size_t packets_used_ = 0, pieces_used_ = 0, trains_used_ = 0, next_train_ = 0;
};

}  // namespace rdmc::fabric
