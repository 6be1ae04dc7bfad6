// The implementation of a Node: its link table, its groups, and the code that runs them on a fabric thread.
// The node may share this thread with other users.
#pragma once

#include <algorithm>
#include <atomic>
#include <cassert>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "controlplane/peer/context.hpp"
#include "lib/group/node_counters.hpp"
#include "lib/group/node_group.hpp"
#include "lib/include/rdmc/group.hpp"

namespace rdmc {

struct Node::State final : private engine::Poller {
  ~State() override;

  /// Makes this fabric thread give turns to the node. Must be called only once.
  void join(std::shared_ptr<peer::FabricThread> fabric_thread);
  /// Runs `function` on the fabric thread and waits for it. It runs between two turns, or at once if the
  /// caller is on the fabric thread.
  template <typename Function>
  auto in_engine(Function function) {
    return thread->call(std::move(function));
  }
  /// Runs `call`, which queues a command for the group. The fabric thread executes the command soon.
  template <typename Call>
  std::invoke_result_t<Call, group::NodeGroup&> command(GroupNumber number, Call call);
  std::shared_ptr<group::NodeGroup> find(GroupNumber number);
  /// Closes all connections in the next turn. Allocates no memory.
  void disconnect_all() noexcept {
    disconnects_all_ = true;
    thread->wake();
  }

  NodeOptions options;
  std::shared_ptr<peer::FabricThread> thread;
  group::NodeCounts counts;
  std::unique_ptr<group::Peers> peers;

  std::mutex mutex;  // Protects `groups`.
  std::map<GroupNumber, std::shared_ptr<group::NodeGroup>> groups;
  bool some_changed = false;  // Only the fabric thread uses it.

 private:
  std::size_t work(Time now) override;
  Time next_deadline() const override;
  /// Makes the next turn execute the commands of all groups and tidy the groups, because this turn may not
  /// have finished this work.
  void on_out_of_memory() override {
    all_run_ = true;
    some_changed = true;
  }
  bool tidy_groups();
  void for_each_group(void (group::NodeGroup::*action)());
  void begin_leaving(Time now);
  bool may_leave(Time now) const;
  void leave();

  /// The state of the node's last turns, in which the records that were sent last can still arrive at the
  /// peers.
  struct Leaving {
    Time latest;
    int turns = 0;
    std::promise<void> left;
  };
  std::optional<Leaving> leaving_;  // Only the fabric thread uses it.
  /// If true, the next turn executes the commands of all groups. Set to true if a command found no space in
  /// the fabric thread's queue, or if memory ran out.
  std::atomic<bool> all_run_{false};
  std::atomic<bool> disconnects_all_{false};
};

/// This class is for a node without a thread of its own. While an object of it exists, the thread that drives
/// the node gives it turns, so other threads may wait for those turns.
class NodeTurns {
 public:
  explicit NodeTurns(Node& node) : thread_(*node.state_->thread) { thread_.let_others_wait(true); }
  ~NodeTurns() { thread_.let_others_wait(false); }
  /// Succeeds if the calling thread may wait until the node has had turns. Errors: invalid_argument if the
  /// caller is in an upcall, or if the node has no thread of its own and the caller does not drive it.
  static Result<void> check_may_wait(const Node& node) {
    const peer::FabricThread& thread = *node.state_->thread;
    if (thread.is_in_turn()) return fail(Errc::invalid_argument, "an upcall may not wait");
    if (!thread.options().own_thread && !thread.is_current())
      return fail(Errc::invalid_argument, "only the thread that drives the node may wait for it");
    return {};
  }
  /// Closes all connections of the node in its next turn. Allocates no memory.
  static void disconnect_all(Node& node) noexcept { node.state_->disconnect_all(); }
  NodeTurns(const NodeTurns&) = delete;
  NodeTurns& operator=(const NodeTurns&) = delete;

 private:
  peer::FabricThread& thread_;
};

inline std::unexpected<Error> no_group(GroupNumber number) {
  return fail(Errc::not_found, "no group " + std::to_string(value_of(number)));
}

template <typename Call>
std::invoke_result_t<Call, group::NodeGroup&> Node::State::command(GroupNumber number, Call call) {
  const auto group = find(number);
  if (!group) return no_group(number);
  auto answer = call(*group);
  if (!answer || !group->wants_to_run()) return answer;
  // The queue of the fabric thread has other users, too, so it may be full. The calling thread does not wait
  // for space in it: the caller may hold a lock for which an upcall waits.
  const auto run = [weak = std::weak_ptr(group)] {
    if (const auto alive = weak.lock()) alive->run();
  };
  const bool is_ours = thread->is_current();
  bool lacks_memory = false;
  try {
    if (thread->post(run)) return answer;
  } catch (const std::bad_alloc&) {  // The command is queued nevertheless.
    lacks_memory = true;
  }
  if (is_ours && !lacks_memory) return group->run(), answer;
  all_run_ = true;
  thread->wake();  // The engine may have emptied its queue meanwhile, and may sleep.
  return answer;
}

}  // namespace rdmc
