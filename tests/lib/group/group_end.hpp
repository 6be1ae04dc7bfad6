// One member's end of a group in a test. It gives each message its own memory, and it records every upcall.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "dataplane/base/random.hpp"
#include "dataplane/memory/arena.hpp"
#include "lib/group/group.hpp"
#include "lib/group/memory_store.hpp"

namespace rdmc::group {

class GroupEnd : public Observer {
 public:
  Result<void> open(Peers& peers, const GroupConfig& config) {
    auto group = Group::create(peers, config, *this);
    if (!group) return std::unexpected(group.error());
    group_ = std::move(*group);
    return {};
  }
  void destroy() { group_.reset(); }

  Store* incoming(std::uint64_t message, std::uint64_t bytes) override {
    announced[message] = bytes;
    if (choose_store) return choose_store(message, bytes);
    return accept_at_once ? &store_for(message, bytes) : nullptr;
  }
  void delivered(std::uint64_t message) override {
    delivered_messages.push_back(message);
    if (on_delivered) on_delivered();
  }
  void completed(std::uint64_t message) override {
    completed_messages.push_back(message);
    if (on_completed) on_completed();
  }
  void failed(std::optional<Rank> peer, const Error& error) override {
    ++failures;
    failed_peer = peer;
    failure = error;
    if (on_failed) on_failed();
  }
  void released() override { ++releases; }
  void stable(std::uint64_t count) override { stable_count = count; }
  void held_up(const std::optional<Holder>& holder) override { held_up_by.push_back(holder); }
  bool small(std::uint64_t message, std::span<const std::byte> small) override {
    if (!accept_at_once) return false;
    store_for(message, small.size());
    std::ranges::copy(small, bytes(message).begin());
    delivered_messages.push_back(message);
    return true;
  }

  /// Gives memory to all announced messages that have none. From now on, every message gets memory at once.
  void accept_waiting() {
    if (std::exchange(accept_at_once, true)) return;
    for (const auto& [message, bytes] : announced) {
      if (!messages_.contains(message)) (void)group_->accept(message, store_for(message, bytes));
    }
  }

  /// Makes the memory of a message. The memory is page aligned and exactly as long as requested. A guard
  /// follows it, which nothing may write.
  Store& store_for(std::uint64_t message, std::uint64_t bytes) {
    return store_for(message, bytes, group_->plan_of(message).block_bytes);
  }
  Store& store_for(std::uint64_t message, std::uint64_t bytes, std::uint32_t block_bytes) {
    Kept& kept = messages_[message];
    kept.arena = *memory::Arena::make(bytes + memory::kPageBytes);
    kept.bytes = kept.arena.bytes().first(bytes);
    kept.store = std::make_unique<MemoryStore>(kept.bytes, bytes, block_bytes);
    return *kept.store;
  }
  /// Sends `bytes` random bytes as the next message.
  Result<std::uint64_t> send_random(std::uint64_t bytes, Random& random,
                                    std::optional<relay::MessagePlan> by = std::nullopt) {
    const relay::MessagePlan plan = by.value_or(group_->plan_for(bytes));
    Store& store = store_for(sent_, bytes, plan.block_bytes);
    for (std::byte& b : messages_[sent_].bytes) b = static_cast<std::byte>(random.next());
    ++sent_;
    const bool is_small = group_->config().confirms && bytes <= group_->config().small_bytes;
    return is_small ? group_->send_small(messages_[sent_ - 1].bytes) : group_->send(store, bytes, plan);
  }
  std::span<std::byte> bytes(std::uint64_t message) { return messages_[message].bytes; }
  bool guard_is_intact(std::uint64_t message) {
    const Kept& kept = messages_[message];
    const auto guard = kept.arena.bytes().subspan(kept.bytes.size());
    return std::ranges::all_of(guard, [](std::byte b) { return b == std::byte{0}; });
  }
  /// Returns true if this member has received the first `count` messages as `root` has sent them, in order
  /// and without duplicates. No guard may have been written.
  bool has_all(std::uint64_t count, GroupEnd& root) {
    std::vector<std::uint64_t> in_order;
    for (std::uint64_t m = 0; m < count; ++m) in_order.push_back(m);
    if (delivered_messages != in_order || completed_messages != in_order) return false;
    return std::ranges::all_of(in_order, [&](std::uint64_t m) {
      return std::ranges::equal(bytes(m), root.bytes(m)) && guard_is_intact(m);
    });
  }

  Group& group() { return *group_; }
  bool is_open() const { return group_ != nullptr; }

  bool accept_at_once = true;
  std::function<Store*(std::uint64_t message, std::uint64_t bytes)> choose_store;
  std::function<void()> on_delivered, on_completed, on_failed;
  std::map<std::uint64_t, std::uint64_t> announced;
  std::vector<std::uint64_t> delivered_messages, completed_messages;
  std::uint64_t stable_count = 0;
  std::vector<std::optional<Holder>> held_up_by;
  int failures = 0, releases = 0;
  std::optional<Rank> failed_peer;
  Error failure{};

 private:
  struct Kept {
    memory::Arena arena;
    std::span<std::byte> bytes;
    std::unique_ptr<MemoryStore> store;
  };
  std::map<std::uint64_t, Kept> messages_;  // Declared before `group_`, because it must outlive the group.
  std::uint64_t sent_ = 0;
  std::unique_ptr<Group> group_;
};

}  // namespace rdmc::group
