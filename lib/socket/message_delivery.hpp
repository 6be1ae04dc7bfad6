// Gives a received message to the application: by a copy, or by its pages if the application permits it
// (MSG_ZEROCOPY).
#pragma once

#include <cstddef>
#include <span>

#include "dataplane/base/types.hpp"
#include "lib/socket/endpoint.hpp"

namespace rdmc::sockets {

/// Permission to hand over the pages of a message in place of a copy of its bytes.
struct ByPages {
  std::size_t least_bytes;  ///< the least number of bytes that are handed over
  /// How long deliver() may wait until the message has no other owner. The other owners are calls that peek,
  /// and the group while it still passes the bytes on to other members. They need the bytes where they are.
  Duration patience;
};

/// About the time of a copy of `bytes` bytes. It is the longest patience that cannot cost more than it gains.
Duration copy_time(std::size_t bytes);

/// Gives the first bytes of `message`, as many as `out` has space for, to the application. Returns how many
/// of them were copied. Must be called without the sockets' lock.
std::size_t deliver(Endpoint::Message message, std::span<std::byte> out);
/// Does the same, and hands over pages if this is possible. If it is not, or if the message still has another
/// owner, all bytes are copied.
std::size_t deliver(Endpoint::Message message, std::span<std::byte> out, const ByPages& by_pages);

}  // namespace rdmc::sockets
