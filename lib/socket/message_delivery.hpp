// Gives a received message to the application: by a copy, or by an exchange of pages if the application
// permits it (MSG_ZEROCOPY).
#pragma once

#include <cstddef>
#include <span>

#include "dataplane/memory/page_exchange.hpp"
#include "lib/socket/endpoint.hpp"

namespace rdmc::sockets {

/// Gives the first bytes of `message`, as many as `out` has space for, to the application. Returns how many
/// of them were copied. If `exchange` is not null, it may exchange pages in place of a copy. For this the
/// message must have no other owner. The other owners are calls that peek, and the group while it still
/// passes the bytes on to other members: they need the bytes where they are. So the call waits for them, but
/// at most as long as a copy takes. Must be called without the sockets' lock.
std::size_t deliver(Endpoint::Message message, std::span<std::byte> out,
                    const memory::PageExchange* exchange = nullptr);

}  // namespace rdmc::sockets
