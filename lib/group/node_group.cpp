#include "lib/group/node_group.hpp"

#include <algorithm>
#include <utility>

namespace rdmc::group {

Result<void> NodeGroup::open(Peers& peers, const GroupConfig& config) {
  auto group = Group::create(peers, config, *this);
  if (!group) return std::unexpected(group.error());
  group_ = std::move(*group);
  is_root_ = value_of(config.rank) == 0;
  return {};
}

Result<void> NodeGroup::may_call() const {
  if (failed_) return fail(Errc::peer_failed, "the group has failed");
  if (destroying_) return fail(Errc::cancelled, "the group is being destroyed");
  if (commands_.size() >= kMostCommands) return fail(Errc::would_block, "too many calls at once");
  return {};
}

Result<std::uint64_t> NodeGroup::send(std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  if (!is_root_) return fail(Errc::invalid_argument, "only the group's root sends");
  if (auto may = may_call(); !may) return std::unexpected(may.error());
  if (bytes.size() / group_->config().block_bytes >= relay::kMaxBlocks)
    return fail(Errc::invalid_argument, "longer than any message");
  commands_.push_back(Send{bytes});
  return next_send_++;
}

Result<void> NodeGroup::post(std::span<std::byte> buffer) {
  const std::lock_guard lock(mutex_);
  if (is_root_) return fail(Errc::invalid_argument, "the group's root receives nothing");
  if (auto may = may_call(); !may) return may;
  commands_.push_back(Buffer{buffer});
  return {};
}

Result<void> NodeGroup::destroy(Destroyed done) {
  const std::lock_guard lock(mutex_);
  if (destroying_) return fail(Errc::cancelled, "the group is being destroyed already");
  destroying_ = true;
  commands_.push_back(Destroy{std::move(done)});
  return {};
}

bool NodeGroup::wants_to_run() {
  const std::lock_guard lock(mutex_);
  return !commands_.empty() && !std::exchange(told_, true);
}

void NodeGroup::run() {
  std::deque<Command> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(commands_);
    told_ = false;
  }
  for (Command& command : commands) std::visit([this](auto& one) { execute(one); }, command);
}

// What a group that has failed meanwhile refuses, failed() has told already.
void NodeGroup::execute(Send& send) {
  if (send.bytes.size() <= group_->config().small_bytes) {
    (void)group_->send_small(send.bytes);
    return;
  }
  // A root's store is only read.
  const std::span memory(const_cast<std::byte*>(send.bytes.data()), send.bytes.size());
  auto store = std::make_unique<MemoryStore>(memory, memory.size(), group_->config().block_bytes);
  if (const auto sent = group_->send(*store, memory.size())) held_[*sent] = {memory, std::move(store)};
}

void NodeGroup::execute(Buffer& buffer) {
  buffers_.push_back(buffer.bytes);
  serve_waiting();
}

void NodeGroup::execute(Destroy& destroy) {
  done_ = std::move(destroy.done);
  if (!failure_) (void)group_->close();
  finish();
}

void NodeGroup::serve_waiting() {
  while (!waiting_.empty() && !buffers_.empty() && !failure_) {
    const auto [message, bytes] = waiting_.front();
    const auto memory = buffers_.front();
    waiting_.pop_front();
    buffers_.pop_front();
    if (memory.size() < bytes) {
      group_->give_up({Errc::invalid_argument, "a receive buffer of " + std::to_string(memory.size()) +
                                                   " bytes for a message of " + std::to_string(bytes)});
    } else if (auto taken = group_->accept(message, hold(message, memory, bytes)); !taken && !failure_) {
      group_->give_up(taken.error());
    }
  }
}

/// The application's memory for a message that begins. An answer too small ends the group.
std::optional<std::span<std::byte>> NodeGroup::place(std::uint64_t message, std::uint64_t bytes) {
  std::optional<std::span<std::byte>> memory;
  if (callbacks_.incoming && asked_ != message) memory = callbacks_.incoming(message, bytes);
  asked_ = message;
  if (!memory && waiting_.empty() && !buffers_.empty()) {
    memory = buffers_.front();
    buffers_.pop_front();
  }
  if (memory && memory->size() < bytes) {
    group_->give_up({Errc::invalid_argument, "memory of " + std::to_string(memory->size()) +
                                                 " bytes for a message of " + std::to_string(bytes)});
    return std::nullopt;
  }
  return memory;
}

Store& NodeGroup::hold(std::uint64_t message, std::span<std::byte> memory, std::uint64_t bytes) {
  Held& held = held_[message];
  held.bytes = memory.first(bytes);
  held.store = std::make_unique<MemoryStore>(held.bytes, bytes, group_->config().block_bytes);
  return *held.store;
}

Store* NodeGroup::incoming(std::uint64_t message, std::uint64_t bytes) {
  const auto memory = place(message, bytes);
  if (memory) return &hold(message, *memory, bytes);
  waiting_.push_back({message, bytes});
  return nullptr;
}

bool NodeGroup::small(std::uint64_t message, std::span<const std::byte> bytes) {
  const auto memory = place(message, bytes.size());
  if (!memory) return false;
  std::ranges::copy(bytes, memory->begin());
  if (callbacks_.delivered) callbacks_.delivered(message, memory->first(bytes.size()));
  return true;
}

void NodeGroup::delivered(std::uint64_t message) {
  if (!is_root_ && callbacks_.delivered) callbacks_.delivered(message, held_[message].bytes);
}

void NodeGroup::completed(std::uint64_t message) {
  held_.erase(message);
  if (callbacks_.reusable) callbacks_.reusable(message);
}

void NodeGroup::stable(std::uint64_t count) {
  if (callbacks_.stable) callbacks_.stable(count);
}

void NodeGroup::failed(std::optional<Rank> member, const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    failed_ = true;
  }
  failure_ = error;
  const auto node = member ? std::optional(members_[value_of(*member)]) : std::nullopt;
  if (callbacks_.failed) {
    callbacks_.failed(
        {.node = node, .error = error, .delivered = group_->delivered(), .stable = group_->stable()});
  }
}

void NodeGroup::released() {
  released_ = true;
  finish();
}

void NodeGroup::finish() {
  if (!released_ || !done_ || over_) return;
  over_ = some_over_ = true;
  const Destroyed done = std::move(*done_);
  if (done) done(failure_ ? Result<void>(std::unexpected(*failure_)) : Result<void>());
}

}  // namespace rdmc::group
