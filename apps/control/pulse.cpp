#include "apps/control/pulse.hpp"

namespace rdmc::control_app {

bool Pulse::beat(store::RaftNode& node, control::ControlLoop& loop) {
  std::uint64_t number = 0;
  bool answered = false;
  {
    const std::scoped_lock lock(state_->mutex);
    answered = state_->node == state_->asked && state_->loop == state_->asked;
    number = ++state_->asked;
  }
  node.status([state = state_, number](const store::RaftStatus& status) {
    const std::scoped_lock lock(state->mutex);
    state->node = number;
    state->status = status;
  });
  loop.post([state = state_, number] {
    const std::scoped_lock lock(state->mutex);
    state->loop = number;
  });
  return answered;
}

Pulse::Latest Pulse::latest() const {
  const std::scoped_lock lock(state_->mutex);
  return {state_->asked - state_->node <= 1, state_->status};
}

}  // namespace rdmc::control_app
