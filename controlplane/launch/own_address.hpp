// Finds the address at which the other members reach this process, if its host has several addresses and the
// launcher names only hosts.
#pragma once

#include <string>
#include <vector>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::control {

/// True if `host`, a name or a numeric address, is this machine: its host name, with or without the domain,
/// or an address of one of its interfaces. Resolves no name.
bool is_this_host(const std::string& host);

/// Returns the address (with port 0) of this machine, which the other members call `own`. If `hosts` has no
/// other host, this is `own` if it is numeric, and otherwise 127.0.0.1. If there are other hosts, it is the
/// address of `own`. But that may be only a loopback address (in Debian's /etc/hosts it is 127.0.1.1), or
/// `own` may not resolve. Then it is the address from which this machine sends to the first other host. If
/// that host has only a loopback address too, it is the loopback address of `own`. Resolves at most two
/// names, and blocks for at most `patience` for each. Errors: not_found (no name helps), timed_out (the
/// resolver), io_error, resource_limit (no thread).
Result<Address> own_address(const std::string& own, const std::vector<std::string>& hosts, Duration patience);

}  // namespace rdmc::control
