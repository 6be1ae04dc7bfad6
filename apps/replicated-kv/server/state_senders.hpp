// Sends the state to other servers while this one goes on: a forked child has the state as it was, and writes
// it to a pipe. A thread reads the pipe, and gives what it reads to the library. So neither process ever has
// a second copy of all data, except for what changes meanwhile.
//
// One thread uses the object.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "apps/replicated-kv/log/forked_child.hpp"
#include "lib/include/rdmc/replicated_state.hpp"

namespace rdmc::kv {

class StateSenders {
 public:
  using Save = std::function<void(const std::function<void(std::vector<std::byte>)>& write)>;

  /// Begins to send what `save` writes now. `save` runs in the child. Errors: those of pipe()
  /// and of fork(); resource_limit if there is no thread.
  Result<void> begin(const StateWriter& to, const Save& save);
  /// Returns why states could not be sent since the last call, for people. The library begins such a transfer
  /// again.
  std::vector<std::string> take_failures();
  /// Ends all transfers that are on their way.
  void stop() { senders_.clear(); }

 private:
  struct Sender {
    ~Sender();

    ForkedChild child;
    std::string failure;  // not to be read before is_over
    std::atomic<bool> is_over = false, must_stop = false;
    std::thread thread;  // uses everything before it
  };
  std::list<Sender> senders_;
};

}  // namespace rdmc::kv
