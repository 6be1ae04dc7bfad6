// TCP sockets with the settings that the control plane needs: close-on-exec, non-blocking, without Nagle's
// delay, and with the kernel's timeouts for silent peers. The functions are thin wrappers of system calls.
// They may be called from any thread.
#pragma once

#include <sys/socket.h>

#include <optional>

#include "dataplane/base/address.hpp"
#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::control {

/// Returns the error of a socket call. Its text is "WHAT: strerror". Its code is that of fail_errno, with
/// these exceptions: peer_failed if the peer is unreachable, refuses or resets; already_exists if the address
/// is in use; not_found if this host does not have the address; resource_limit for ENOBUFS.
std::unexpected<Error> fail_socket(std::string_view what, int errno_value);

/// Returns a listening socket. Port 0 chooses any free port. An IPv6 socket accepts only IPv6, even at the
/// wildcard address, so each address has a socket of its own. Errors: unsupported for a link-local address,
/// because hosts send their addresses to each other, and a link-local address has another meaning on each
/// host.
Result<Descriptor> listen_on(const Address& address);
/// Returns a socket that is bound to `address` and does not listen. It only reserves the address. Port 0
/// chooses a free port. While the reservation exists, listen_on() can make another socket that listens at
/// this address. Only one socket can listen at the address.
Result<Descriptor> reserve(const Address& address);
/// Accepts one waiting connection of `listener` and writes the peer's address to `peer`. Errors: would_block
/// if no connection waits.
Result<Descriptor> accept_one(int listener, Address& peer);
/// Starts a connection to `address` and returns its socket. The caller must wait until the socket is writable
/// and then call connect_result(). Errors: unsupported for a link-local address.
Result<Descriptor> begin_connect(const Address& address);
/// Returns 0 if the socket has connected, or the errno of the failure.
int connect_result(int socket);

/// Sets TCP_NODELAY. Makes the kernel report a peer that is silent for `limit` as ETIMEDOUT. `limit` is used
/// in whole milliseconds, from 1 ms to 1 hour.
void set_channel_options(int socket, Duration limit);
Address local_address(int socket);
/// Returns the smallest round-trip time that the kernel has measured on a TCP connection (tcp_info). Returns
/// nullopt if it has measured none.
std::optional<Duration> round_trip(int socket);

socklen_t to_sockaddr(const Address& address, sockaddr_storage& storage);
/// Returns the address in `storage`. Returns an empty address if the family is neither IPv4 nor IPv6.
Address from_sockaddr(const sockaddr_storage& storage);

}  // namespace rdmc::control
