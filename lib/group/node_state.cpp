#include "lib/group/node_state.hpp"

#include "dataplane/base/clock.hpp"

namespace rdmc {
namespace {

/// The time within which peers must acknowledge what a leaving node has sent last. A dead peer is noticed
/// earlier.
constexpr Duration kFarewell = seconds(1);
/// A leaving node gets more than this number of last turns. The reason is that an acknowledgement is sent in
/// the turn after the arrival of its packet, and that this packet may not have arrived yet.
constexpr int kLastTurns = 3;

}  // namespace

void Node::State::join(std::shared_ptr<peer::FabricThread> fabric_thread) {
  thread = std::move(fabric_thread);
  thread->call([this] {
    thread->engine().add(*peers);
    thread->engine().add(*this);
  });
}

Node::State::~State() {
  if (thread == nullptr) return;
  const bool is_in_upcall = thread->is_in_turn();
  std::future<void> left;
  thread->call([&] {
    begin_leaving(monotonic_now());
    left = leaving_->left.get_future();
    // The caller is in an upcall of another node, where it must not wait for turns.
    if (is_in_upcall) leave();
  });
  // The application drives the fabric thread and is in this function now, so this function gives the turns.
  while (thread->is_current() && leaving_) static_cast<void>(thread->turn(milliseconds(1)));
  left.get();
}

/// Begins the last turns of the node. Queue pairs must end on the thread on which they lived. They must not
/// end before the records that were sent last, for example a verdict, have arrived, and before the packets
/// that arrived last are acknowledged.
void Node::State::begin_leaving(Time now) {
  {
    const std::lock_guard lock(mutex);
    groups.clear();
  }
  leaving_.emplace(Leaving{.latest = now + kFarewell, .left = {}});
}

bool Node::State::may_leave(Time now) const {
  return leaving_->turns > kLastTurns && (peers->is_quiet() || now >= leaving_->latest);
}

/// Ends the node's use of the fabric thread. Sets the result `left` last, because the thread that waits for
/// it destroys this object at once.
void Node::State::leave() {
  thread->engine().remove(*this);
  thread->engine().remove(*peers);
  peers.reset();
  std::promise<void> left = std::move(leaving_->left);
  leaving_.reset();
  left.set_value();
}

/// Does the node's work of one turn. The result includes the work for groups. So the engine gives another
/// turn, in which the groups go on, even if nothing else wakes the engine.
std::size_t Node::State::work(Time now) {
  std::size_t done = 0;
  if (disconnects_all_) {
    peers->disconnect_all({Errc::cancelled, "disconnected"});
    disconnects_all_ = false;
    ++done;
  }
  if (all_run_.exchange(false)) {
    for_each_group(&group::NodeGroup::run);
    ++done;
  }
  if (!leaving_) return done + (tidy_groups() ? 1 : 0);
  ++leaving_->turns;
  if (may_leave(now)) leave();
  return done;
}

Time Node::State::next_deadline() const {
  if (!leaving_) return Time::never();
  return leaving_->turns <= kLastTurns || peers->is_quiet() ? Time{} : leaving_->latest;
}

/// Calls `action` for each group. The upcalls of a group may make and end other groups. Allocates no memory.
void Node::State::for_each_group(void (group::NodeGroup::*action)()) {
  std::optional<GroupNumber> last;
  for (;;) {
    std::shared_ptr<group::NodeGroup> group;
    {
      const std::lock_guard lock(mutex);
      const auto next = last ? groups.upper_bound(*last) : groups.begin();
      if (next == groups.end()) return;
      last = next->first;
      group = next->second;
    }
    ((*group).*action)();
  }
}

std::shared_ptr<group::NodeGroup> Node::State::find(GroupNumber number) {
  const std::lock_guard lock(mutex);
  const auto found = groups.find(number);
  return found == groups.end() || found->second->is_over() ? nullptr : found->second;
}

/// Does for each group what must not be done in its upcalls, and removes the groups that are over. Returns
/// false if there was nothing to do.
bool Node::State::tidy_groups() {
  if (!std::exchange(some_changed, false)) return false;
  for_each_group(&group::NodeGroup::tidy);
  const std::lock_guard lock(mutex);
  std::erase_if(groups, [&](const auto& entry) {
    if (!entry.second->is_over()) return false;
    // A thread that is still in a call on the group would become its last owner, and queue pairs must not end
    // on that thread.
    if (entry.second.use_count() == 1) return true;
    some_changed = true;
    return false;
  });
  return true;
}

}  // namespace rdmc
