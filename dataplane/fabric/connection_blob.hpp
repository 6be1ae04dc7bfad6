// What two software endpoints tell each other before they connect, as a value and as bytes. The bytes travel
// in the control plane as an opaque blob; everything in them is checked when they come back in.
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
  Address shared;               ///< where ACKs and packets of strangers go
  std::uint16_t bulk_port = 0;  ///< UDP port, at the same address, for this connection's requests
  Qpn qpn{};
  Psn first_psn;                     ///< of the requests this side sends
  std::uint32_t path_mtu = 0;        ///< largest payload this side can send and receive in one packet
  std::uint32_t receive_window = 0;  ///< payload bytes that may be on their way to this side
  bool selective_repeat = false;     ///< offers the X_ extension (docs/wire.md)
  /// Not one of ours: a textbook endpoint whose packets come from any UDP port, with any IPv4 identification,
  /// to our shared flow.
  bool foreign = false;
  /// An RDMA NIC of ours: on the wire a stranger, but one that reads our blobs and agrees on a path MTU.
  bool nic = false;
  /// first_psn is where the other side begins, as rdma_cm tells it: each uses the other's number.
  bool psn_for_other = false;
  bool icrc_optional = false;     ///< does without ICRCs where the packets stay on this host
  bool single_datagrams = false;  ///< may lose trains: wants every datagram sent on its own
  /// READ requests and atomics of the other side's that may be under way; 0 = not known.
  std::uint8_t max_rd_atomic = 0;
  std::uint64_t host_id = 0;  ///< equal on both sides: one network stack, no link between them
  /// Of the keys that packets are sealed with in place of an ICRC: both sides have one, or none. A blob that
  /// has one is a secret.
  std::optional<crypto::KeyShare> key_share;
};

ConnectionBlob encode(const ConnectionInfo& info);

/// Errors: protocol_error (not a blob, or fields out of range), version_mismatch (naming both versions).
Result<ConnectionInfo> decode_connection(std::span<const std::byte> blob);

/// The path MTU two endpoints use: the smaller offer; the next of the specification's five sizes below it
/// where a NIC is on one side. A stranger does not negotiate: its own, one of the five, or none. Errors:
/// unsupported if it is below 256 or not a stranger's, or if a NIC cannot reach the other side: it knows UDP
/// port 4791 only.
Result<std::uint32_t> agree_path_mtu(const ConnectionInfo& ours, const ConnectionInfo& theirs);

}  // namespace rdmc::fabric
