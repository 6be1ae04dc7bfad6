#include "lib/group/node_state.hpp"

#include "dataplane/base/clock.hpp"

namespace rdmc {
namespace {

/// How long a peer may take to acknowledge our last words; one that is dead is found out sooner.
constexpr Duration kFarewell = seconds(1);
/// An acknowledgement leaves in the turn after what it is for, which may be on its way.
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
    if (is_in_upcall) leave();  // of another node: it must not wait for turns
  });
  // The turns are the application's, which has this thread now.
  while (thread->is_current() && leaving_) static_cast<void>(thread->turn(milliseconds(1)));
  left.get();
}

/// Queue pairs end on the thread that they lived on. Not before what was said last, a verdict perhaps, has
/// arrived, and what came last is acknowledged.
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

/// Whoever waits for it destroys this at once.
void Node::State::leave() {
  thread->engine().remove(*this);
  thread->engine().remove(*peers);
  peers.reset();
  std::promise<void> left = std::move(leaving_->left);
  leaving_.reset();
  left.set_value();
}

/// It counts what it does for groups as work: the groups go on with it in the next turn, and perhaps nothing
/// else wakes the engine.
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

/// The upcalls of one may make others and end them. Needs no memory.
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

/// What groups cannot do in their own upcalls; and those that are over are forgotten. False: nothing.
bool Node::State::tidy_groups() {
  if (!std::exchange(some_changed, false)) return false;
  for_each_group(&group::NodeGroup::tidy);
  const std::lock_guard lock(mutex);
  std::erase_if(groups, [&](const auto& entry) {
    if (!entry.second->is_over()) return false;
    // Who is in a call on it still would be its last owner, on a thread where queue pairs must not end.
    if (entry.second.use_count() == 1) return true;
    some_changed = true;
    return false;
  });
  return true;
}

}  // namespace rdmc
