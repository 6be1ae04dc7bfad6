// Finds the address at which the other members reach this process. This is needed if the launcher names only
// hosts, because a host can have several addresses.
#pragma once

#include <string>
#include <vector>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::control {

/// True if `host` is this machine. `host` is a name or a numeric address. It is compared with this machine's
/// host name, with and without the domain, or with the addresses of its interfaces. Resolves no name.
bool is_this_host(const std::string& host);

/// Returns the address of this machine, with port 0. `own` is the name or numeric address that the other
/// members use for this machine. `hosts` are all hosts of the job. The result is the first of these that
/// exists:
/// - If `hosts` contains no other host: `own` if it is numeric, and otherwise 127.0.0.1.
/// - The address of `own`, if it is not a loopback address. (In Debian's /etc/hosts, the host's own name has
///   the loopback address 127.0.1.1.)
/// - The address from which this machine sends to the first other host, if that host has an address that is
///   not a loopback address.
/// - The loopback address of `own`.
/// Resolves at most two names, and blocks for at most `patience` for each name. Errors: not_found if no name
/// can be resolved, timed_out if the resolver does not answer, io_error, resource_limit if no thread can be
/// started.
Result<Address> own_address(const std::string& own, const std::vector<std::string>& hosts, Duration patience);

}  // namespace rdmc::control
