// Checks regularly that a node of the store still works. The node's control loop must answer each question
// before the next question is sent, and its disk must not be busy with one write for long. The service
// manager's watchdog and the metrics use the result of these checks. So they show the state of the loop and
// of the disk, and not only that the thread that sends the questions is alive. beat() must be called on one
// thread only. The other functions may be called on any thread.
#pragma once

#include <memory>
#include <mutex>

#include "controlplane/connect/control_loop.hpp"
#include "controlplane/store/store_node.hpp"

namespace rdmc::control_app {

class Pulse {
 public:
  /// A disk that takes longer for one write counts as hung.
  static constexpr Duration kMostWriting = seconds(2);

  /// Sends a question to the node, which must live as long as `loop`. Returns true if two conditions are met.
  /// First, the node has answered the previous question, or this is the first question. Second, the node's
  /// disk does not hang.
  bool beat(const store::StoreNode& node, control::ControlLoop& loop);

  struct Latest {
    /// True if the node has answered all questions, except perhaps the last one, and its disk works.
    bool node_answers = false;
    store::NodeStatus status;  ///< The status in the node's last answer.
  };
  Latest latest() const;

 private:
  struct State {
    std::mutex mutex;
    /// The numbers of the last question and of the last answer.
    std::uint64_t asked = 0, answered = 0;
    store::NodeStatus status;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace rdmc::control_app
