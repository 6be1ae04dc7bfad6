// By which address the other members meet this process, when its host has several and its launcher names only
// hosts.
#pragma once

#include <string>
#include <vector>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::control {

/// Whether `host`, a name or a numeric address, is this machine: its host name, with or without the domain,
/// or an address of one of its interfaces. Resolves nothing.
bool is_this_host(const std::string& host);

/// The address (port 0) of this machine, which the others call `own`: 127.0.0.1 if no other is in `hosts`;
/// else what `own` means here; but if that is a loopback address only (Debian's /etc/hosts: 127.0.1.1) or
/// nothing, the one from which we would send to the first other host. Blocks for at most `patience`. Errors:
/// not_found (no name helps), timed_out (the resolver), io_error.
Result<Address> own_address(const std::string& own, const std::vector<std::string>& hosts, Duration patience);

}  // namespace rdmc::control
