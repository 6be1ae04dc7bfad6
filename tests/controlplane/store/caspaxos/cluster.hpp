// Three store nodes without disks. No messages are lost between the nodes, except on links that a test has
// cut.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "controlplane/store/caspaxos/node.hpp"
#include "tests/controlplane/store/caspaxos/values.hpp"

namespace rdmc::store::testing {

class Cluster {
 public:
  /// The client number of the test. The client number of a node is its node number plus one.
  static constexpr Node::Client kTest = 100;

  void start(std::size_t node, Durable kept = {}) {
    held_disks_.erase(node);
    nodes[node].emplace(Node::Options{.self = node,
                                      .nodes = kMostNodes,
                                      .fresh = {2, ++lives_},
                                      .proposer = {3, ++lives_},
                                      .seed = lives_,
                                      .started = 10 * lives_},
                        std::move(kept), now);
  }
  void start_all() {
    for (std::size_t node = 0; node < kMostNodes; ++node) start(node);
  }
  /// Cuts the links between `node` and the other nodes.
  void cut(std::size_t node) { cut_.insert(node); }
  void heal() { cut_.clear(); }
  /// From now on, the disk of `node` completes no write, until the node is started again.
  void hold_disk(std::size_t node) { held_disks_.insert(node); }

  /// Sends a request to the node. Returns the answer, or nullopt if no answer arrives within `time`.
  std::optional<Reply> ask(std::size_t node, decltype(Request::body) body, Duration time = seconds(10)) {
    said_.reset();
    nodes[node]->receive(kTest, {1, std::move(body)}, now);
    run_until([&] { return said_.has_value(); }, time);
    return said_;
  }
  /// Returns the node's reason for a refusal, or an empty string if the node does not refuse.
  std::string refusal_of(std::size_t node, decltype(Request::body) body) {
    const auto reply = ask(node, std::move(body));
    if (!reply) return "no answer";
    const auto* const refused = std::get_if<Refusal>(&reply->body);
    return refused == nullptr ? "" : refused->text;
  }

  template <typename Condition>
  bool run_until(Condition condition, Duration time = seconds(10)) {
    const Time limit = now + time;
    for (;;) {
      deliver();
      if (condition()) return true;
      if (now >= limit) return false;
      Time next = limit;
      for (const auto& node : nodes)
        if (node) next = std::min(next, node->next_deadline());
      now = std::max(next, now + microseconds(1));
      for (auto& node : nodes)
        if (node) node->tick(now);
    }
  }
  bool all_serve() {
    return run_until([this] { return std::ranges::all_of(nodes, is_serving); });
  }
  static bool is_serving(const std::optional<Node>& node) { return node && node->stage() == Stage::serving; }

  std::array<std::optional<Node>, kMostNodes> nodes;
  Time now;

 private:
  bool passes(std::size_t from, std::size_t to) const {
    return nodes[to] && !cut_.contains(from) && !cut_.contains(to);
  }
  void deliver() {
    for (bool goes_on = true; std::exchange(goes_on, false);)
      for (std::size_t self = 0; self < kMostNodes; ++self) {
        if (!nodes[self]) continue;
        for (const auto& write : nodes[self]->take_writes()) {
          if (held_disks_.contains(self)) continue;
          nodes[self]->synced(write.sequence, now);
          goes_on = true;
        }
        for (auto& to : nodes[self]->take_requests()) {
          if (passes(self, to.node)) nodes[to.node]->receive(self + 1, std::move(to.request), now);
          goes_on = true;
        }
        for (auto& to : nodes[self]->take_replies()) {
          if (to.client == kTest)
            said_ = std::move(to.reply);
          else if (passes(self, to.client - 1))
            nodes[to.client - 1]->hear(self, to.reply, now);
          goes_on = true;
        }
      }
  }

  std::uint64_t lives_ = 0;
  std::set<std::size_t> cut_, held_disks_;
  std::optional<Reply> said_;
};

}  // namespace rdmc::store::testing
