#include "apps/control/pulse.hpp"

namespace rdmc::control_app {

bool Pulse::beat(const store::StoreNode& node, control::ControlLoop& loop) {
  std::uint64_t number = 0;
  bool well = false;
  {
    const std::scoped_lock lock(state_->mutex);
    well = state_->answered == state_->asked && state_->status.writing_for <= kMostWriting;
    number = ++state_->asked;
  }
  loop.post([state = state_, &node, number] {
    store::NodeStatus status = node.status();
    const std::scoped_lock lock(state->mutex);
    state->answered = number;
    state->status = std::move(status);
  });
  return well;
}

Pulse::Latest Pulse::latest() const {
  const std::scoped_lock lock(state_->mutex);
  const bool answers = state_->asked - state_->answered <= 1 && state_->status.writing_for <= kMostWriting;
  return {answers, state_->status};
}

}  // namespace rdmc::control_app
