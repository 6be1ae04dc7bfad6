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
  Address shared;               ///< The destination of ACKs and of packets from foreign endpoints.
  std::uint16_t bulk_port = 0;  ///< The UDP port number, at the same address, for this connection's requests.
  Qpn qpn{};
  Psn first_psn;                     ///< The first PSN of the requests that this side sends.
  std::uint32_t path_mtu = 0;        ///< The largest payload of a packet that this side can send and receive.
  std::uint32_t receive_window = 0;  ///< The payload bytes that may be in flight to this side.
  bool selective_repeat = false;     ///< Offers selective repeat, the X_ packet formats (docs/wire.md).
  /// A foreign endpoint: it speaks standard mode. Its packets come from any UDP port number, with any IPv4
  /// identification, to the shared flow of the other side.
  bool foreign = false;
  /// An RDMA NIC that rdmc uses. On the wire it acts like a foreign endpoint, but its process reads
  /// connection blobs and agrees on a path MTU.
  bool nic = false;
  /// True if first_psn is the PSN at which the other side begins, as in rdma_cm: each side uses the other's
  /// number.
  bool psn_for_other = false;
  bool icrc_optional = false;     ///< Can do without ICRCs if the packets stay on this host.
  bool single_datagrams = false;  ///< May lose trains, and therefore wants single datagrams.
  /// The most READs and atomics of the other side in flight; 0 = not known.
  std::uint8_t max_rd_atomic = 0;
  /// If equal on both sides, they share one network stack, and no link is between them.
  std::uint64_t host_id = 0;
  /// The key share of this side, if packets are sealed in place of an ICRC. Either both sides have one, or
  /// neither. A blob that contains one is secret.
  std::optional<crypto::KeyShare> key_share;
};

ConnectionBlob encode(const ConnectionInfo& info);

/// Errors: protocol_error if it is not a blob or a field is out of range, version_mismatch (names both
/// versions).
Result<ConnectionInfo> decode_connection(std::span<const std::byte> blob);

/// Returns the path MTU that two endpoints use: the smaller of both offers. If one side is a NIC, it is
/// rounded down to one of the specification's five sizes. A foreign endpoint does not negotiate: its own MTU,
/// one of the five sizes, is used. Errors: unsupported if the result is below 256, if a foreign endpoint's
/// MTU is not one of the five or is larger than the local one, or if one side is a NIC and one of the two UDP
/// port numbers is not 4791.
Result<std::uint32_t> agree_path_mtu(const ConnectionInfo& ours, const ConnectionInfo& theirs);

}  // namespace rdmc::fabric
