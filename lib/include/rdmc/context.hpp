// A Context has the objects that the nodes, endpoints, sockets and memberships of one process share: the
// fabric threads, and the connections to other processes. A program that makes no Context uses the Context of
// its process. Any thread may call any function.
#pragma once

#include <cstddef>
#include <memory>

namespace rdmc {

namespace peer {
class Context;
}
/// A Context ends when the application and all objects that were made with it have released it.
using Context = peer::Context;

struct ContextOptions {
  /// The maximum number of fabric threads for each combination of these options: address of this host,
  /// fabric, device, encryption, DSCP and busy_poll. At least 1. A new node, endpoint or other object gets
  /// the fabric thread that has the fewest users. There is exactly one fabric thread for an explicit port
  /// number. Objects with port number 0 may use that thread, too.
  std::size_t threads = 1;
};

/// Makes a Context in addition to that of the process, for a program that wants more threads, or two parts
/// that share nothing.
std::shared_ptr<Context> make_context(const ContextOptions& options = {});
/// Returns the Context of this process. A child of fork() has a Context of its own.
std::shared_ptr<Context> process_context();

/// Changes ContextOptions::threads of `context` to `most`; 0 means 1. Threads that already run continue. Use
/// this function for the Context of the process, whose limit is 1 by default.
void set_most_fabric_threads(Context& context, std::size_t most);
/// Returns the number of fabric threads that `context` has now.
std::size_t fabric_threads(const Context& context);

}  // namespace rdmc
