// The inside of a Node: its fabric, peers and engine, who may touch them when, and its groups.
#pragma once

#include <algorithm>
#include <atomic>
#include <cassert>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "controlplane/auth/random.hpp"
#include "dataplane/engine/engine.hpp"
#include "dataplane/fabric/host_identity.hpp"
#include "dataplane/fabric/standard_fabrics.hpp"
#include "lib/group/fabric_agent.hpp"
#include "lib/group/node_group.hpp"
#include "lib/include/rdmc/group.hpp"

namespace rdmc {

struct Node::State {
  ~State();

  /// One turn of the engine; the owner's.
  void turn(Duration longest);
  /// The own thread, from its beginning to its end.
  void run();
  void end();
  /// Has the owner run `function` - between two turns, or at once when we are the owner - and waits for it.
  template <typename Function>
  auto in_engine(Function function);
  /// `call` queues a command for the group, which the engine runs soon.
  template <typename Call>
  std::invoke_result_t<Call, group::NodeGroup&> command(GroupNumber number, Call call);
  std::shared_ptr<group::NodeGroup> find(GroupNumber number);
  bool tidy_groups();
  void give_up_all() noexcept;
  std::vector<std::shared_ptr<group::NodeGroup>> all_groups();

  NodeOptions options;
  fabric::OpenedFabric opened;
  std::unique_ptr<group::FabricAgent> agent;
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<group::Peers> peers;

  std::mutex mutex;  // of groups
  std::map<GroupNumber, std::shared_ptr<group::NodeGroup>> groups;
  bool some_changed = false;  // the engine's

  std::atomic<std::thread::id> owner = std::this_thread::get_id();  // whose the fabric and all groups are
  std::atomic<bool> stopping = false;
  std::thread thread;
};

inline std::unexpected<Error> no_group(GroupNumber number) {
  return fail(Errc::not_found, "no group " + std::to_string(value_of(number)));
}

template <typename Function>
auto Node::State::in_engine(Function function) {
  if (owner.load() == std::this_thread::get_id()) return function();
  std::packaged_task<std::invoke_result_t<Function>()> task(std::move(function));
  auto result = task.get_future();
  while (!engine->post([&task] { task(); })) std::this_thread::yield();
  return result.get();
}

template <typename Call>
std::invoke_result_t<Call, group::NodeGroup&> Node::State::command(GroupNumber number, Call call) {
  const auto group = find(number);
  if (!group) return no_group(number);
  auto answer = call(*group);
  if (!answer || !group->wants_to_run()) return answer;
  static_assert(group::Peers::kMostGroups < engine::Engine::kQueueDepth);  // one task for each at most
  [[maybe_unused]] const auto posted = engine->post([weak = std::weak_ptr(group)] {
    if (const auto alive = weak.lock()) alive->run();
  });
  assert(posted);
  return answer;
}

}  // namespace rdmc
