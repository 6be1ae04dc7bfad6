// Whether the threads of a node of the store go round, asked again and again: each must answer one question
// before the next. A manager's watchdog is fed, and a monitor told, by what this says and not by the thread
// that asks. beat() is for one thread, the rest for any.
#pragma once

#include <memory>
#include <mutex>

#include "controlplane/connect/control_loop.hpp"
#include "controlplane/store/raft_node.hpp"

namespace rdmc::control_app {

class Pulse {
 public:
  /// Asks both. True when both had answered the question before, or this is the first.
  bool beat(store::RaftNode& node, control::ControlLoop& loop);

  struct Latest {
    bool node_answers = false;  ///< … its last question but one, at least
    store::RaftStatus status;   ///< as it said then
  };
  Latest latest() const;

 private:
  struct State {
    std::mutex mutex;
    std::uint64_t asked = 0, node = 0, loop = 0;  ///< the numbers of questions
    store::RaftStatus status;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace rdmc::control_app
