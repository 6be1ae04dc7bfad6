// Whether a node of the store goes round, asked again and again: its loop must answer one question before the
// next, and its disk must not be busy with one write for long. A manager's watchdog is fed, and a monitor
// told, by what this says and not by the thread that asks. beat() is for one thread, the rest for any.
#pragma once

#include <memory>
#include <mutex>

#include "controlplane/connect/control_loop.hpp"
#include "controlplane/store/store_node.hpp"

namespace rdmc::control_app {

class Pulse {
 public:
  /// A disk that takes longer for one write counts as one that hangs.
  static constexpr Duration kMostWriting = seconds(2);

  /// Asks the node, which must live as long as `loop`. True when it had answered the question before, or this
  /// is the first, and its disk does not hang.
  bool beat(const store::StoreNode& node, control::ControlLoop& loop);

  struct Latest {
    bool node_answers = false;  ///< its last question but one, at least, and its disk does not hang
    store::NodeStatus status;   ///< as it said then
  };
  Latest latest() const;

 private:
  struct State {
    std::mutex mutex;
    std::uint64_t asked = 0, answered = 0;  ///< the numbers of questions
    store::NodeStatus status;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace rdmc::control_app
