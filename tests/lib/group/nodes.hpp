// Real nodes of this process on loopback addresses, which the test connects, and the upcalls of each member
// of a group. A wait ends when its condition is true. Only a failing test reaches the time limit.
#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/include/rdmc/group.hpp"

namespace rdmc::testing {

inline constexpr GroupNumber kGroup{7};

class Nodes {
 public:
  /// Connects each node with all others. If `star` is true, connects each node only with the first one.
  explicit Nodes(std::uint32_t count, bool star = false) {
    for (std::uint32_t i = 0; i < count; ++i) {
      ids.push_back(NodeId{i});
      auto node = Node::create({.id = ids.back(),
                                .address = Address::ipv4(127, 0, 3, static_cast<std::uint8_t>(i + 1), 0),
                                .fabric = "udp"});
      BOOST_REQUIRE(node);
      nodes.push_back(std::move(*node));
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      for (std::uint32_t j = 0; j < (star ? std::min(i, 1U) : i); ++j) {
        const auto from_i = nodes[i]->offer(ids[j]), from_j = nodes[j]->offer(ids[i]);
        BOOST_REQUIRE((from_i && from_j));
        BOOST_REQUIRE((nodes[i]->connect(ids[j], *from_j) && nodes[j]->connect(ids[i], *from_i)));
      }
    }
  }
  Node& operator[](std::size_t i) { return *nodes[i]; }

  std::vector<NodeId> ids;
  std::vector<std::unique_ptr<Node>> nodes;
};

/// The upcalls of one member. A mutex protects them.
class Heard {
 public:
  /// Returns callbacks that record all upcalls. If `places` is true, they give each message its own memory.
  GroupCallbacks callbacks(bool places = true) {
    GroupCallbacks on;
    on.incoming = [this, places](std::uint64_t message,
                                 std::uint64_t bytes) -> std::optional<std::span<std::byte>> {
      const std::lock_guard lock(mutex_);
      lengths[message] = bytes;
      changed_.notify_all();
      if (!places) return std::nullopt;
      return memory[message] = std::vector<std::byte>(bytes), std::span(memory[message]);
    };
    on.delivered = [this](std::uint64_t message, std::span<std::byte> bytes) {
      const std::lock_guard lock(mutex_);
      delivered.emplace_back(message, std::vector<std::byte>(bytes.begin(), bytes.end()));
      changed_.notify_all();
    };
    on.reusable = [this](std::uint64_t) { count(reusable); };
    on.stable = [this](std::uint64_t messages) {
      const std::lock_guard lock(mutex_);
      stable = messages;
      changed_.notify_all();
    };
    on.told = [this](NodeId from, std::span<const std::byte> note) {
      const std::lock_guard lock(mutex_);
      notes[from].emplace_back(note.begin(), note.end());
      changed_.notify_all();
    };
    on.failed = [this](const GroupFailure& why) {
      const std::lock_guard lock(mutex_);
      failures.push_back(why);
      changed_.notify_all();
    };
    on.continued = [this](std::uint64_t next) {
      const std::lock_guard lock(mutex_);
      continued = next;
      changed_.notify_all();
    };
    return on;
  }
  std::function<void(Result<void>)> on_destroyed() {
    return [this](Result<void> result) {
      const std::lock_guard lock(mutex_);
      destroyed = std::move(result);
      changed_.notify_all();
    };
  }
  template <typename Condition>
  bool wait_until(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), condition);
  }

  std::map<std::uint64_t, std::uint64_t> lengths;
  std::map<std::uint64_t, std::vector<std::byte>> memory;
  std::vector<std::pair<std::uint64_t, std::vector<std::byte>>> delivered;
  std::uint64_t reusable = 0, stable = 0;
  std::map<NodeId, std::vector<std::vector<std::byte>>> notes;
  std::vector<GroupFailure> failures;
  std::optional<std::uint64_t> continued;
  std::optional<Result<void>> destroyed;

 private:
  void count(std::uint64_t& what) {
    const std::lock_guard lock(mutex_);
    ++what;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
};

template <typename T>
bool failed_with(const Result<T>& result, Errc code) {
  return !result && result.error().code == code && !result.error().what.empty();
}

}  // namespace rdmc::testing
