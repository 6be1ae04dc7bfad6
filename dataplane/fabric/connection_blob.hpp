// The values that two RoCEv2 endpoints exchange before they connect, as a struct and as bytes. The control
// plane carries the bytes without looking inside. All fields are checked when a blob is decoded.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/crypto/packet_seal.hpp"
#include "dataplane/fabric/queue_pair.hpp"

namespace rdmc::fabric {

struct ConnectionInfo {
  /// The address and port number to which ACKs are sent, and to which foreign endpoints send all packets.
  Address shared;
  /// The UDP port number to which this connection's requests are sent, at the same address.
  std::uint16_t bulk_port = 0;
  Qpn qpn{};
  Psn first_psn;               ///< The first PSN of the requests that this side sends. See psn_for_other.
  std::uint32_t path_mtu = 0;  ///< The largest payload of a packet that this side can send and receive.
  std::uint32_t receive_window = 0;  ///< The payload bytes that may be in flight to this side.
  /// True if this side offers selective repeat, with the X_ packet formats (docs/wire.md).
  bool selective_repeat = false;
  /// True for a foreign endpoint, which uses standard mode. It sends its packets to the shared flow of the
  /// other side, from any UDP port number and with any IPv4 identification.
  bool foreign = false;
  /// True for an RDMA NIC that rdmc uses. Its packets are like those of a foreign endpoint, but the process
  /// that uses the NIC reads connection blobs and agrees on a path MTU.
  bool nic = false;
  /// True if first_psn is for the requests of the other side, not for those of this side. rdma_cm exchanges
  /// PSNs in this way.
  bool psn_for_other = false;
  bool icrc_optional =
      false;  ///< True if this side permits packets without ICRCs when they stay on this host.
  /// True if trains to this side may be lost, so that the other side must send single datagrams.
  bool single_datagrams = false;
  /// The maximum number of READs and atomics of the other side that may be in flight; 0 means not known.
  std::uint8_t max_rd_atomic = 0;
  /// See host_identity(); 0 means not known. If it is equal on both sides, they share one network stack, and
  /// no link is between them.
  std::uint64_t host_id = 0;
  /// The key share of this side, if packets have a seal in place of an ICRC. Either both sides have a key
  /// share, or neither has one. A blob that contains a key share is secret.
  std::optional<crypto::KeyShare> key_share;
};

ConnectionBlob encode(const ConnectionInfo& info);

/// Decodes a connection blob. Errors: protocol_error if the bytes are not a connection blob or a field is out
/// of range, version_mismatch (the text names both versions).
Result<ConnectionInfo> decode_connection(std::span<const std::byte> blob);

/// Returns the path MTU that two endpoints use. This is the smaller of both offers, with these exceptions:
/// - If one side is a NIC, the result is rounded down to one of the specification's five sizes.
/// - A foreign endpoint does not negotiate. The result is its own MTU, which must be one of the five sizes.
/// Errors: unsupported in these cases:
/// - The result is below 256.
/// - The MTU of a foreign endpoint is not one of the five sizes, or is larger than the local MTU.
/// - One side is a NIC, and one of the two UDP port numbers is not 4791.
Result<std::uint32_t> agree_path_mtu(const ConnectionInfo& ours, const ConnectionInfo& theirs);

}  // namespace rdmc::fabric
