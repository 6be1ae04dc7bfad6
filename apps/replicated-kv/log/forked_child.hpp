// A child process, made by fork(). It has the memory of the server as it was at that moment, and works with
// it while the server goes on: it writes the state to a file or to a pipe. One thread uses the object.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::kv {

class ForkedChild {
 public:
  ForkedChild() = default;
  ForkedChild(const ForkedChild&) = delete;
  ForkedChild& operator=(const ForkedChild&) = delete;
  ~ForkedChild() { stop(); }

  /// Makes a child that calls work(descriptor) and ends with the result, which is 0 or an errno. `descriptor`
  /// means the same as `kept` here, and nothing else of the server is open in the child: a connection would
  /// otherwise live as long as the child. The child has a lower priority, and dies with the thread that calls
  /// this. No child of this object must be running. Errors: those of fork().
  Result<void> begin(int kept, const std::function<int(int descriptor)>& work);
  /// Is readable when the child has ended. -1 if there is none.
  int descriptor() const { return child_.get(); }
  /// Returns nullopt while the child runs, and if there is none. After its end, returns once whether it was
  /// successful. Errors: that of the errno; peer_failed if the child was killed.
  std::optional<Result<void>> finished();
  /// Kills the child if it runs.
  void stop();
  bool is_running() const { return static_cast<bool>(child_); }

 private:
  Descriptor child_;  // a pidfd
  pid_t pid_ = 0;
};

/// Calls `attempt` every 10 ms while it returns `busy`, 300 times at most. Returns its last result, which
/// is 0 or an errno. If a server is killed, its child dies only when it gets CPU. Until then a new server
/// finds the directory locked and the port in use.
int outlast_child(int busy, const std::function<int()>& attempt);

}  // namespace rdmc::kv
