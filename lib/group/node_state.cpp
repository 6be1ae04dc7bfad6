#include "lib/group/node_state.hpp"

#include <new>

#include "dataplane/base/clock.hpp"

namespace rdmc {
namespace {

/// How long a peer may take to acknowledge our last words; one that is dead is found out sooner.
constexpr Duration kFarewell = seconds(1);
/// An acknowledgement leaves in the turn after what it is for, which may be on its way.
constexpr int kLastTurns = 3;

}  // namespace

Node::State::~State() {
  if (thread.joinable()) {
    stopping = true;
    agent->wake();
    thread.join();
  } else {
    end();
  }
}

void Node::State::run() {
  owner = std::this_thread::get_id();
  owner.notify_all();
  while (!stopping) {
    try {
      turn(seconds(3600));
    } catch (const std::bad_alloc&) {
      give_up_all();
    }
  }
  end();
}

/// The process had no memory for something of a group's, and any of them may lack a piece.
void Node::State::give_up_all() noexcept {
  try {
    for (const auto& group : all_groups()) group->give_up({Errc::resource_limit, "no memory"});
  } catch (const std::bad_alloc&) {
    // Those that are left time out.
  }
}

std::vector<std::shared_ptr<group::NodeGroup>> Node::State::all_groups() {
  const std::lock_guard lock(mutex);
  std::vector<std::shared_ptr<group::NodeGroup>> all;
  for (const auto& [number, group] : groups) all.push_back(group);
  return all;
}

/// The owner's: queue pairs end on the thread that they lived on. Not before what was said last, a verdict
/// perhaps, has arrived, and what came last is acknowledged.
void Node::State::end() {
  groups.clear();
  if (!peers) return;
  const Time latest = monotonic_now() + kFarewell;
  for (int turns = 0; turns < kLastTurns || (!peers->is_quiet() && monotonic_now() < latest); ++turns)
    engine->turn(milliseconds(1));
  engine->remove(*peers);
  peers.reset();
}

void Node::State::turn(Duration longest) {
  engine->turn(tidy_groups() ? Duration{} : longest);
}

std::shared_ptr<group::NodeGroup> Node::State::find(GroupNumber number) {
  const std::lock_guard lock(mutex);
  const auto found = groups.find(number);
  return found == groups.end() || found->second->is_over() ? nullptr : found->second;
}

/// What groups cannot do in their own upcalls; and those that are over are forgotten. False: nothing.
bool Node::State::tidy_groups() {
  if (!std::exchange(some_changed, false)) return false;
  for (const auto& group : all_groups()) group->tidy();
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
