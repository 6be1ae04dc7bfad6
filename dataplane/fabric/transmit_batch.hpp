// The packets of a few trains between the connections and the port: headers, trailers, and gather lists that
// refer to the payload. The batch is filled, sealed and sent in one turn. Trains for which the port had no
// space stay in the batch for the next turn. Owned by the software fabric. The batch refers to posted memory.
// Before such memory is released, the owner must drop the trains that refer to it.
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

/// The addresses that one connection's packets are sent to, and how they are sealed.
struct TransmitPath {
  port::FlowId source{};
  Address bulk, shared;
  roce::Icrc bulk_icrc, shared_icrc;
  bool icrc = true;  ///< False if both ends agreed that the ICRC field is zero and is not checked.
  std::unique_ptr<crypto::PacketSealer> sealer;  ///< If set, it seals packets in place of the ICRC.
  bool trains = true;                            ///< False if the peer wants single datagrams.
  bool ecn_capable = false;                      ///< True if switches may mark the bulk packets.
};

class TransmitBatch {
 public:
  static constexpr std::size_t kPackets = 256;

  /// `encrypted_bytes` is the maximum number of encrypted payload bytes in one turn; 0 without encryption.
  explicit TransmitBatch(std::size_t encrypted_bytes = 0) : encrypted_(encrypted_bytes) {}

  bool empty() const { return next_train_ == trains_used_; }
  std::size_t room() const { return kPackets - packets_used_; }
  void clear() {
    packets_used_ = trains_used_ = next_train_ = pieces_used_ = encrypted_used_ = 0;
    ++filling_;
  }
  /// Returns how often the batch has been emptied. If the number has changed since packets were added, these
  /// packets are no longer in the batch.
  std::uint64_t filling() const { return filling_; }

  /// Returns space for packets of one connection. The caller must then call `seal` with the number of packets
  /// that it filled.
  std::span<roce::TxPacket> space(std::size_t at_most) {
    return std::span(packets_).subspan(packets_used_, std::min(at_most, room()));
  }
  /// Groups the next `count` packets into trains that the port can send. Writes their identification and
  /// ICRC, or encrypts them.
  void seal(std::size_t count, const TransmitPath& path, const port::PortInfo& port,
            const ArrivedChecksums& arrived);

  /// These two functions drop unsent trains: all trains of one connection, or all trains that refer to
  /// `memory`. For the connection, the dropped packets count as lost. `path` must be the object that was
  /// passed to seal().
  void drop(const TransmitPath& path);
  void drop(std::span<const std::byte> memory);
  /// Drops the packets of one connection that refer to `memory`, which belongs to its oldest work request.
  /// These are the first packets of their trains. The packets after them stay: the connection would wait for
  /// a timeout if they were lost. With identification_counts_up, a receiver that sees IP headers drops them.
  void drop_oldest(const TransmitPath& path, std::span<const std::byte> memory);

  /// Passes the unsent trains to the port. Returns false if the port had no space for all of them.
  bool send(port::Port& port);

 private:
  template <typename Predicate>
  void drop_if(Predicate predicate);
  /// The object that seals one packet: the sealer if there is one, otherwise the ICRC. Both are null if
  /// packets are not sealed.
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
  // For each packet, the pad and the ICRC or seal.
  std::array<std::array<std::byte, 4 + crypto::kSealBytes>, kPackets> trailers_;
  std::array<iovec, kPackets * 3> pieces_;
  std::array<port::TxTrain, kPackets> trains_;
  std::array<const TransmitPath*, kPackets> paths_;  // The path of each train.
  std::vector<std::byte> encrypted_;                 // The encrypted payload of the packets in this batch.
  std::uint64_t filling_ = 0;
  std::size_t encrypted_used_ = 0;
  std::size_t packets_used_ = 0, pieces_used_ = 0, trains_used_ = 0, next_train_ = 0;
};

}  // namespace rdmc::fabric
