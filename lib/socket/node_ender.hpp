// Ends the nodes of group sockets on a thread of its own. The end of a node takes up to a second, in which
// its last messages arrive. The control loop must not wait for this, because the control loop also sends the
// heartbeats.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "lib/include/rdmc/group.hpp"

namespace rdmc::sockets {

class NodeEnder {
 public:
  using Then = std::move_only_function<void()>;

  NodeEnder() = default;
  NodeEnder(const NodeEnder&) = delete;
  NodeEnder& operator=(const NodeEnder&) = delete;
  ~NodeEnder() { finish(); }

  /// Returns at once, and destroys the node on the ender's thread. Then calls `then` on that thread. If no
  /// thread or no memory is available, the calling thread destroys the node and calls `then` before this
  /// function returns. Any thread may call this.
  void end(std::unique_ptr<Node> node, Then then);
  /// Waits until all nodes have ended. Must not be called inside `then`.
  void finish();

 private:
  struct Ending {
    std::unique_ptr<Node> node;
    Then then;
    void operator()() {
      node.reset();
      then();
    }
  };
  void run();
  bool hand_over(Ending& ending);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Ending> endings_;
  bool is_finishing_ = false;
  std::thread thread_;  ///< started with the first node
};

}  // namespace rdmc::sockets
