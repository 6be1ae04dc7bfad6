// What the nodes, sockets and memberships of one process share: the threads that move its bytes, and the
// connections to each other process. A program that makes no Context uses the one of its process.
#pragma once

#include <cstddef>
#include <memory>

namespace rdmc {

namespace peer {
class Context;
}
/// Shared by whatever is created with it, and ended with the last of them. Any thread.
using Context = peer::Context;

struct ContextOptions {
  /// The most threads that move bytes for one set of: the address of this host, fabric, device, encryption,
  /// DSCP and way of waiting (busy_poll). At least 1. What is created takes the one that the fewest others
  /// use. An explicit port has one thread, which those who ask for port 0 use as well.
  std::size_t threads = 1;
};

/// A Context beside that of the process: for a program that wants more threads, or two parts that share
/// nothing.
std::shared_ptr<Context> make_context(const ContextOptions& options = {});
/// The Context of this process. A child of fork() has its own.
std::shared_ptr<Context> process_context();

/// From now on, ContextOptions::threads of `context` are `most`; 0 means 1. Threads that run already go on.
/// For the Context of the process, which has one such thread unless a program says otherwise here.
void set_most_fabric_threads(Context& context, std::size_t most);
/// How many fabric threads `context` has now.
std::size_t fabric_threads(const Context& context);

}  // namespace rdmc
