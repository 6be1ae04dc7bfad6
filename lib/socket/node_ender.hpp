// Ends the nodes of group sockets on a thread of its own. The end of a node takes up to a second, in which
// its last words are to arrive. The control loop has no time for that: heartbeats run on it, too.
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

  /// Any thread. Returns at once, and calls `then` when the node is gone, on the ender's thread. Where there
  /// is no thread or no memory to be had, the calling thread does both.
  void end(std::unique_ptr<Node> node, Then then);
  /// Waits until all nodes are gone. Not in `then`.
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
  std::thread thread_;  ///< from the first node on
};

}  // namespace rdmc::sockets
