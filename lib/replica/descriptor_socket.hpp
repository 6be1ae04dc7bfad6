// The socket by which rdmc_run passes descriptors to a process of the run: the pipes and the socket of a
// process that will be forked from it. It is a Unix socket that keeps the limits of messages
// (SOCK_SEQPACKET). The process inherits its end when it is started, and its environment has the number.
// Stateless; any thread may call these functions.
#pragma once

#include <optional>
#include <span>
#include <utility>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"
#include "lib/replica/run_messages.hpp"

namespace rdmc::replica {

/// The descriptors of a new process.
struct PassedDescriptors {
  Descriptor input, output, errors;  ///< its standard input, output and error
  Descriptor socket;                 ///< its own descriptor socket
};

/// Makes the two ends of a descriptor socket. Errors: resource_limit.
Result<std::pair<Descriptor, Descriptor>> make_descriptor_socket();
/// Sends the descriptors. They belong to `request`. Does not wait. Errors: those of sendmsg(2).
Result<void> pass_descriptors(int socket, ForkNumber request, const PassedDescriptors& descriptors);
/// Returns the descriptors that belong to `request`, and drops those of older requests. Does not wait.
/// Errors: not_found if they are not there; those of recvmsg(2).
Result<PassedDescriptors> take_descriptors(int socket, ForkNumber request);

}  // namespace rdmc::replica
