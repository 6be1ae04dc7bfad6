// Tries out, before anything is promised, what the kernel does with trains on the chosen address: sends a few
// to itself. What a document says about a kernel and what this kernel does here (containers, filters, old
// versions) are two things.
#pragma once

#include <cstdint>
#include <optional>

#include "dataplane/base/error.hpp"
#include "dataplane/port/socket_address.hpp"

namespace rdmc::port {

struct UdpAbilities {
  bool reaches_itself = false;  ///< a plain datagram came back; else nothing below is known
  bool segmentation = false;    ///< one call sent several datagrams
  bool receive_trains = false;  ///< one call received them
  /// The identification that the first datagram of a train had on the wire, where the kernel shows it (IPv4,
  /// sent packets looped back with their timestamp).
  std::optional<std::uint16_t> first_identification;
};

/// Uses two sockets of its own on `address` (any port), for at most some 100 ms when nothing comes back.
/// Errors: those of binding.
Result<UdpAbilities> try_udp(const SocketAddress& address);

}  // namespace rdmc::port
