// TCP sockets as the control plane uses them: close-on-exec, non-blocking, without Nagle's delay, and with
// the kernel watching for silent peers. Plain system calls behind Result; any thread.
#pragma once

#include <sys/socket.h>

#include <optional>

#include "dataplane/base/address.hpp"
#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::control {

/// The error of a socket call, as "WHAT: strerror". Adds to fail_errno: a peer that is not there, refuses or
/// resets is peer_failed, an address in use already_exists, an address that is not ours not_found.
std::unexpected<Error> fail_socket(std::string_view what, int errno_value);

/// A listening socket. Port 0 takes any. A wildcard IPv6 address listens on IPv6 alone: one address, one
/// socket.
/// Link-local addresses are unsupported: hosts tell each other where they are, and those mean something else
/// on each.
Result<Descriptor> listen_on(const Address& address);
/// A socket that does nothing but keep `address` from others until listen_on takes it, too; port 0 takes a
/// free one. While both exist, the address is listened on once.
Result<Descriptor> reserve(const Address& address);
/// One connection waiting on `listener`, with the peer's address in `peer`; would_block when there is none.
Result<Descriptor> accept_one(int listener, Address& peer);
/// A socket whose connection to `address` is under way: wait until it is writable, then ask connect_result().
Result<Descriptor> begin_connect(const Address& address);
/// 0, or the errno with which connecting failed.
int connect_result(int socket);

/// TCP_NODELAY, and a peer that is silent for `limit` (rounded to milliseconds) is reported as ETIMEDOUT.
void set_channel_options(int socket, Duration limit);
Address local_address(int socket);
/// The least that the kernel has measured on a TCP connection (tcp_info); none if it has measured none.
std::optional<Duration> round_trip(int socket);

socklen_t to_sockaddr(const Address& address, sockaddr_storage& storage);
/// Anything but IPv4 and IPv6 gives an empty address.
Address from_sockaddr(const sockaddr_storage& storage);

}  // namespace rdmc::control
