// The inside of a Node: its peers and groups, and their turns on a fabric thread that it may share with
// others.
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

  /// Takes part in the thread's turns. Once.
  void join(std::shared_ptr<peer::FabricThread> fabric_thread);
  /// Has the fabric's thread run `function` - between two turns, or at once when that is ours - and waits for
  /// it.
  template <typename Function>
  auto in_engine(Function function) {
    return thread->call(std::move(function));
  }
  /// `call` queues a command for the group, which the engine runs soon.
  template <typename Call>
  std::invoke_result_t<Call, group::NodeGroup&> command(GroupNumber number, Call call);
  std::shared_ptr<group::NodeGroup> find(GroupNumber number);
  /// In the next turn. Needs no memory.
  void disconnect_all() noexcept {
    disconnects_all_ = true;
    thread->wake();
  }

  NodeOptions options;
  std::shared_ptr<peer::FabricThread> thread;
  group::NodeCounts counts;
  std::unique_ptr<group::Peers> peers;

  std::mutex mutex;  // of groups
  std::map<GroupNumber, std::shared_ptr<group::NodeGroup>> groups;
  bool some_changed = false;  // the engine's

 private:
  std::size_t work(Time now) override;
  Time next_deadline() const override;
  /// What groups were asked to do, or had to tidy up, is done in the next turn.
  void on_out_of_memory() override {
    all_run_ = true;
    some_changed = true;
  }
  bool tidy_groups();
  void for_each_group(void (group::NodeGroup::*action)());
  void begin_leaving(Time now);
  bool may_leave(Time now) const;
  void leave();

  /// The last turns, in which what was said last is to arrive.
  struct Leaving {
    Time latest;
    int turns = 0;
    std::promise<void> left;
  };
  std::optional<Leaving> leaving_;  // the engine's
  /// A command found no room in the queue of a thread of the application's, or memory ran out meanwhile.
  std::atomic<bool> all_run_{false};
  std::atomic<bool> disconnects_all_{false};
};

/// While it lives, the thread that drives a node without a thread of its own gives it turns, and others may
/// wait for them.
class NodeTurns {
 public:
  explicit NodeTurns(Node& node) : thread_(*node.state_->thread) { thread_.let_others_wait(true); }
  ~NodeTurns() { thread_.let_others_wait(false); }
  /// Whether the calling thread may wait until the node has had turns. Errors: invalid_argument.
  static Result<void> check_may_wait(const Node& node) {
    const peer::FabricThread& thread = *node.state_->thread;
    if (thread.is_in_turn()) return fail(Errc::invalid_argument, "an upcall may not wait");
    if (!thread.options().own_thread && !thread.is_current())
      return fail(Errc::invalid_argument, "only the thread that drives the node may wait for it");
    return {};
  }
  /// The node has no peers any more, soon. Needs no memory.
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
  // Others use the thread's queue, too: whoever is not the thread waits for room in it.
  const auto run = [weak = std::weak_ptr(group)] {
    if (const auto alive = weak.lock()) alive->run();
  };
  const bool is_ours = thread->is_current();
  bool lacks_memory = false;
  try {
    if (is_ours || !options.own_thread) {
      if (thread->post(run)) return answer;
    } else {
      thread->post_when_room(run);
      return answer;
    }
  } catch (const std::bad_alloc&) {  // what was asked for is queued all the same
    lacks_memory = true;
  }
  if (is_ours && !lacks_memory) return group->run(), answer;
  all_run_ = true;
  thread->wake();  // the engine may have emptied the queue meanwhile
  return answer;
}

}  // namespace rdmc
