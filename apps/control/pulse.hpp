// Checks regularly that a node of the store still works: its control loop must answer one question before the
// next one, and its disk must not be busy with one write for long. The service manager's watchdog and the
// metrics depend on this result, not on the thread that asks. beat() must be called on one thread only; the
// other functions may be called on any thread.
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

  /// Sends a question to the node, which must live as long as `loop`. Returns true if the node had answered
  /// the previous question, or if this is the first question, and if its disk does not hang.
  bool beat(const store::StoreNode& node, control::ControlLoop& loop);

  struct Latest {
    /// It answered all questions, perhaps except the last, and its disk works.
    bool node_answers = false;
    store::NodeStatus status;  ///< The status in its last answer.
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
