// The functions that the application calls. Any thread puts commands into a queue, and the fabric thread
// executes them.
#include "lib/group/node_group.hpp"

#include <algorithm>
#include <utility>

namespace rdmc::group {

Result<void> NodeGroup::open(Peers& peers, const GroupConfig& config) {
  auto group = Group::create(peers, config, *this);
  if (!group) return std::unexpected(group.error());
  group_ = std::move(*group);
  peers_ = &peers;
  links_made_ = peers.links_made();
  config_ = config;
  is_root_ = value_of(config.rank) == 0;
  return {};
}

Result<void> NodeGroup::join(Peers& peers, const GroupConfig& config) {
  auto recovery = Recovery::create(peers, config, *this);
  if (!recovery) return std::unexpected(recovery.error());
  recovery_ = std::move(*recovery);
  peers_ = &peers;
  links_made_ = peers.links_made();
  config_ = config;
  joins_ = true;
  phase_ = Phase::continuing;
  recovery_->begin();
  return {};
}

Result<void> NodeGroup::may_call() const {
  if (phase_ == Phase::failed) return fail(Errc::peer_failed, "the group has failed");
  if (destroying_) return fail(Errc::cancelled, "the group is being destroyed");
  if (commands_.size() >= kMostCommands) return fail(Errc::would_block, "too many calls at once");
  return {};
}

Result<std::uint64_t> NodeGroup::send(std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  if (!is_root_) return fail(Errc::invalid_argument, "only the group's root sends");
  if (auto may = may_call(); !may) return std::unexpected(may.error());
  if (phase_ == Phase::continuing) return fail(Errc::would_block, "the group is being continued");
  if (next_send_ - reusable_ >= kMostQueued)
    return fail(Errc::would_block, "too many messages wait to be received");
  if (bytes.size() / config_.block_bytes >= relay::kMaxBlocks)
    return fail(Errc::invalid_argument, "longer than any message");
  commands_.push_back(Send{bytes});
  counts_.sent(bytes.size());
  return next_send_++;
}

Result<void> NodeGroup::post(std::span<std::byte> buffer) {
  const std::lock_guard lock(mutex_);
  if (is_root_) return fail(Errc::invalid_argument, "the group's root receives nothing");
  if (auto may = may_call(); !may) return may;
  commands_.push_back(Buffer{buffer});
  return {};
}

Result<void> NodeGroup::release(std::uint64_t message) {
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::failed) return {};  // Nothing is mapped any more.
  if (commands_.size() >= kMostCommands) return fail(Errc::would_block, "too many calls at once");
  commands_.push_back(Release{message});
  return {};
}

Result<void> NodeGroup::tell_root(std::vector<std::byte> bytes) {
  if (bytes.size() > kMostNote)
    return fail(Errc::invalid_argument, "a note of more than " + std::to_string(kMostNote) + " bytes");
  const std::lock_guard lock(mutex_);
  if (auto may = may_call(); !may) return may;
  if (phase_ == Phase::continuing) return fail(Errc::would_block, "the group is being continued");
  commands_.push_back(Tell{std::move(bytes)});
  return {};
}

Result<void> NodeGroup::destroy(Destroyed done) {
  const std::lock_guard lock(mutex_);
  if (destroying_) return fail(Errc::cancelled, "the group is being destroyed already");
  destroying_ = true;
  destroy_ = std::move(done);
  return {};
}

bool NodeGroup::wants_to_run() {
  const std::lock_guard lock(mutex_);
  return (!commands_.empty() || destroy_) && !std::exchange(told_, true);
}

void NodeGroup::run() {
  has_more_ = true;
  tidy();
}

/// Executes at most `at_most` commands in their order. The other commands wait for the next turn. An upcall
/// may call this function again. A request to destroy the group is executed last. The request is not lost if
/// memory runs out in a command before it.
void NodeGroup::execute_commands(std::size_t at_most) {
  for (; at_most > 0; --at_most) {
    if (executing_.empty() && !take_commands()) return;
    Command command = std::move(executing_.front());
    executing_.pop_front();
    std::visit([this](auto& one) { execute(one); }, command);
  }
  has_more_ = some_changed_ = true;
}

/// Takes the waiting commands. Returns false if there are none. In that case it executes a waiting request to
/// destroy the group.
bool NodeGroup::take_commands() {
  {
    const std::lock_guard lock(mutex_);
    told_ = false;
    executing_.swap(commands_);
    if (!executing_.empty()) return true;
    if (!destroy_) return false;
    done_ = std::exchange(destroy_, std::nullopt);
  }
  execute_destroy();
  return false;
}

void NodeGroup::execute(Send& send) {
  const std::uint64_t number = next_to_send_++;
  const bool is_small = send.bytes.size() <= config_.small_bytes;
  if (is_small && !can_continue_ && number == next_to_submit_ && !group().is_trying()) {
    ++next_to_submit_;
    // A failed group refuses this message. failed() has reported the failure already.
    (void)group().send_small(send.bytes);
    return;
  }
  // The const_cast is safe, because the data path only reads a root's memory.
  held_[number].bytes = {const_cast<std::byte*>(send.bytes.data()), send.bytes.size()};
  submit_all();
}

/// Submits as many messages as may be in progress together. stable() submits more.
void NodeGroup::submit_all() {
  while (next_to_submit_ < next_to_send_ && submit(next_to_submit_)) ++next_to_submit_;
  if (done_ && next_to_submit_ == next_to_send_ && !failure_) (void)group().close();
}

/// Gives a held message to the data path. Returns false if the message has to wait. If a failed group refuses
/// the message, it is kept for the next epoch, provided that the group can continue.
bool NodeGroup::submit(std::uint64_t number) {
  if (phase_ == Phase::continuing) return true;
  if (group().is_trying()) return false;
  Held& held = held_[number];
  if (held.bytes.size() <= config_.small_bytes) {
    (void)group().send_small(held.bytes);
    return true;
  }
  if (group().try_show(held.bytes)) return true;
  if (group().should_wait(held.bytes.size())) return false;
  const relay::MessagePlan plan = group().plan_for(held.bytes.size());
  held.store = std::make_unique<MemoryStore>(held.bytes, held.bytes.size(), plan.block_bytes);
  const auto sent = group().send(*held.store, held.bytes.size(), plan);
  if (sent) return true;
  if (!can_continue_) held_.erase(number);
  // The application already has the number of this message, and there can be no later messages without it. So
  // the group ends.
  if (sent.error().code != Errc::peer_failed) group().give_up(sent.error());
  return true;
}

void NodeGroup::execute(Buffer& buffer) {
  buffers_.push_back(buffer.bytes);
  serve_waiting();
}

void NodeGroup::execute(Release& release) {
  group().release_mapped(release.message);
}

// A note is only for the epoch in which it was sent.
void NodeGroup::execute(Tell& tell) {
  if (phase_ != Phase::open) return;
  if (value_of(config_.rank) == 0)
    told(config_.rank, tell.bytes);
  else
    group().tell_root(tell.bytes);
}

void NodeGroup::execute_destroy() {
  for (const auto& [message, held] : held_)
    if (held.mapped) group().release_mapped(message);
  next_.reset();
  if (phase_ == Phase::continuing && recovery_) recovery_->end({Errc::cancelled, "the group was destroyed"});
  submit_all();
  finish();
}

void NodeGroup::finish() {
  if (!is_released() || next_ || !done_ || over_) return;
  over_ = some_changed_ = true;
  const Destroyed done = std::move(*done_);
  if (done) done(failure_ ? Result<void>(std::unexpected(std::move(*failure_))) : Result<void>());
}

}  // namespace rdmc::group
