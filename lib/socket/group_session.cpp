#include "lib/socket/group_session.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "dataplane/base/types.hpp"
#include "lib/socket/carrier.hpp"

namespace rdmc::sockets {
namespace {

/// The time until the next attempt, when the node did not accept one more message.
constexpr Duration kAgain = milliseconds(1);
/// Messages that wait for space get it when the charge of the unread messages has shrunk to this limit. With
/// a higher limit, small messages would get space one at a time.
constexpr std::size_t kMuchRoom = GroupEnd::kMostKept / 2;
/// The most messages that are removed from the socket while the lock is held once. The number is limited
/// because an application that sends needs the lock, too.
constexpr std::size_t kSentAtOnce = 64;

}  // namespace

void GroupSession::leave(Duration longest, std::function<void()> done) {
  left_ = std::move(done);
  options_.loop.post([self = shared_from_this(), longest] {
    if (self->is_stopped_) return;
    try {
      self->begin_to_leave(longest);
    } catch (const std::bad_alloc&) {  // The other members notice the end of their channels instead.
      self->end_all();
    }
  });
}

void GroupSession::stop() {
  options_.loop.call([self = shared_from_this()] { self->end_all(); });
}

void GroupSession::end_soon() {
  options_.loop.post([self = shared_from_this()] { self->end_all(); });
}

void GroupSession::end_all() {
  if (std::exchange(is_stopped_, true)) return;
  {
    const std::lock_guard lock(options_.lock);
    end_->on_send = nullptr;
    end_->on_room = nullptr;
  }
  say_goodbye();
  again_ = {};
  // The session must live until the node is gone, because the node may call it.
  options_.ender.end(std::move(node_),
                     [self = shared_from_this(), done = std::exchange(left_, nullptr)]() mutable {
                       if (done) done();
                       control::ControlLoop& loop = self->options_.loop;
                       loop.post([last = std::move(self)] {});
                     });
}

Result<void> GroupSession::open_node(std::uint32_t id, Address local) {
  auto node = Node::create({.id = NodeId{id},
                            .address = fabric_address(local),
                            .fabric = options_.fabric,
                            .device = options_.device,
                            .context = options_.context,
                            .encrypt = options_.encrypt});
  if (!node) return std::unexpected(node.error());
  node_ = std::move(*node);
  return {};
}

/// Called when there is no memory. Messages in flight may be incomplete at this member, so the group has
/// failed for this member.
void GroupSession::end_without_memory() {
  try {
    on_group_failed(generation_ ? generation_->epoch : 0, node_ ? value_of(node_->id()) : 0);
  } catch (const std::bad_alloc&) {
    // There is no memory even for handling the failure.
    const std::lock_guard lock(options_.lock);
    end_->end(ENOBUFS);
  }
}

void GroupSession::attach() {
  end_->on_room = [this](std::size_t charge) {
    const std::lock_guard lock(mutex_);
    unread_ -= charge;
    if (!is_waiting_ || unread_ > kMuchRoom) return;
    try {
      later([](GroupSession& self) { self.give_room(); });
    } catch (const std::bad_alloc&) {
      // When the application reads the next message, on_room tries again.
    }
  };
  end_->on_send = [this] {
    if (is_flushing_) return;
    later([](GroupSession& self) { self.flush(); });
    is_flushing_ = true;
  };
}

GroupSession::Backlog GroupSession::take_over() {
  if (generation_) {
    const std::lock_guard lock(mutex_);
    generation_->is_over = true;
  }
  hand_over();
  const std::lock_guard lock(options_.lock);
  return {.first = end_->first(), .next = end_->next()};
}

void GroupSession::hand_over() {
  std::unique_lock lock(mutex_);
  const auto fresh = std::exchange(fresh_, {});
  const auto stable = std::exchange(stable_, {});
  is_told_ = false;
  lock.unlock();
  std::size_t ignored = 0;
  std::deque<GroupEnd::Bytes> gone;  // destroyed without the lock
  {
    const std::lock_guard sockets(options_.lock);
    for (const auto& [number, bytes] : fresh)
      if (!end_->on_message(number, bytes)) ignored += GroupEnd::charge(bytes->size());
    if (stable && end_->is_root()) gone = end_->on_stable(*stable);
  }
  if (stable) on_progress();
  if (ignored == 0) return;
  lock.lock();
  unread_ -= ignored;
  lock.unlock();
  give_room();
}

/// Makes the control loop call hand_over() soon. Must be called with mutex_ held.
void GroupSession::leave_to_loop() {
  if (!std::exchange(is_told_, true)) later([](GroupSession& self) { self.hand_over(); });
}

/// Returns the member because of which this view is impossible. This is a member that the local member has
/// lost or never reached. If the local member itself is the cause, returns 0, which is the root. A member
/// that blames the root is removed itself.
std::uint32_t GroupSession::blamed_for(const GroupWord& view) const {
  const auto lost = std::ranges::find_if(view.nodes, [&](std::uint32_t node) {
    return NodeId{node} != node_->id() && !node_->is_connected(NodeId{node});
  });
  return lost == view.nodes.end() ? 0 : *lost;
}

void GroupSession::install(const GroupWord& view) {
  if (generation_) {
    // The memory of the old view stays until no peer writes or reads it any more.
    (void)node_->destroy_group(GroupNumber{generation_->epoch}, [old = generation_](const Result<void>&) {});
    generation_.reset();
  }
  for (const std::uint32_t node : std::exchange(nodes_, view.nodes))
    if (std::ranges::find(nodes_, node) == nodes_.end()) disconnect(node);
  if (nodes_.size() > 1) {
    std::vector<NodeId> members;
    for (const std::uint32_t node : nodes_) members.push_back(NodeId{node});
    auto next = std::make_shared<Generation>();
    next->epoch = view.epoch;
    next->first = view.first;
    const auto made = node_->create_group(GroupNumber{view.epoch}, members, NodeId{0}, {.epoch = view.epoch},
                                          callbacks(next));
    if (!made) return on_group_failed(view.epoch, blamed_for(view));
    generation_ = std::move(next);
  }
  tell(view);
  flush();
}

/// Reports the members of the view to the application, after everything that came before the view.
void GroupSession::tell(const GroupWord& view) {
  hand_over();
  const std::lock_guard lock(options_.lock);
  end_->members = static_cast<std::uint32_t>(view.nodes.size());
  if (!view.node) return;
  end_->on_event(
      {.kind = view.event, .member = *view.node, .members = end_->members, .missed = 0, .view = view.epoch});
}

GroupCallbacks GroupSession::callbacks(const Held& generation) {
  GroupCallbacks on;
  on.incoming = [this, generation](std::uint64_t message, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    return place(*generation, message, bytes);
  };
  on.delivered = [this, generation](std::uint64_t message, std::span<std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    fresh_.emplace_back(generation->first + message, generation->memory.at(message));
    generation->placed -= GroupEnd::charge(bytes.size());
    unread_ += GroupEnd::charge(bytes.size());
    leave_to_loop();
  };
  on.reusable = [this, generation](std::uint64_t message) {
    const std::lock_guard lock(mutex_);
    generation->memory.erase(message);
  };
  on.stable = [this, generation](std::uint64_t count) {
    const std::lock_guard lock(mutex_);
    if (generation->is_over) return;
    stable_ = generation->first + count;
    leave_to_loop();
  };
  on.failed = [this, epoch = generation->epoch, own = node_->id()](const GroupFailure& failure) {
    std::optional<std::uint32_t> blamed;
    // A failure that names this member itself does not name the cause. The exception is a failure because of
    // missing memory.
    if (failure.node && (*failure.node != own || failure.error.code == Errc::resource_limit))
      blamed = value_of(*failure.node);
    later([epoch, blamed](GroupSession& self) { self.on_group_failed(epoch, blamed); });
  };
  return on;
}

/// True if there is space for a message. The limit of `placed` refuses only messages of a dishonest root. An
/// honest root has at most kMostKept in flight, or a single message that is longer.
bool GroupSession::has_room(const Generation& generation, std::uint64_t bytes) const {
  return unread_ < GroupEnd::kMostKept && generation.placed < GroupEnd::kMostKept &&
         bytes <= GroupEnd::kMostMessageBytes;
}

std::span<std::byte> GroupSession::give(Generation& generation, std::uint64_t message, std::uint64_t bytes) {
  auto& memory = generation.memory[message];
  memory = std::make_shared<GroupEnd::Memory>(bytes);
  generation.placed += GroupEnd::charge(bytes);
  return *memory;
}

/// Returns memory for a message. Returns nullopt if too much data waits to be read. Then give_room() posts
/// the memory when some of this data was read. If the process has no memory left, the group goes on without
/// this member.
std::optional<std::span<std::byte>> GroupSession::place(Generation& generation, std::uint64_t message,
                                                        std::uint64_t bytes) {
  if (has_room(generation, bytes) && generation.waiting.empty()) {
    try {
      return give(generation, message, bytes);
    } catch (const std::bad_alloc&) {
      later([](GroupSession& self) { self.end_without_memory(); });
    }
  }
  generation.waiting.emplace(message, bytes);
  is_waiting_ = true;
  return std::nullopt;
}

void GroupSession::give_room() {
  if (!generation_) return;
  for (;;) {
    std::span<std::byte> room;
    {
      const std::lock_guard lock(mutex_);
      const auto first = generation_->waiting.begin();
      is_waiting_ = first != generation_->waiting.end();
      if (!is_waiting_ || !has_room(*generation_, first->second)) return;
      room = give(*generation_, first->first, first->second);
      generation_->waiting.erase(first);
    }
    if (!node_->post_receive_buffer(GroupNumber{generation_->epoch}, room)) return;
  }
}

void GroupSession::flush() {
  std::array<GroupEnd::Bytes, kSentAtOnce> batch;
  std::deque<GroupEnd::Bytes> gone;  // destroyed without the lock
  for (std::size_t count = kSentAtOnce; count == kSentAtOnce;) {
    {
      const std::lock_guard lock(options_.lock);
      is_flushing_ = false;
      if (!end_->is_root()) return;
      if (!generation_) {
        gone = end_->on_stable(end_->next());  // there is no other member
        break;
      }
      const std::uint64_t from = generation_->first + generation_->sent;
      const std::lock_guard shared(mutex_);
      for (count = 0; count < kSentAtOnce && from + count != end_->next(); ++count) {
        batch[count] = end_->message(from + count);
        generation_->memory[generation_->sent + count] = batch[count];
      }
    }
    for (const auto& bytes : std::span(batch).first(count)) {
      const auto sent = node_->send(GroupNumber{generation_->epoch}, *bytes);
      if (!sent) return on_not_sent(sent.error());
      ++generation_->sent;
    }
  }
  if (!generation_) on_progress();
}

/// Called when a message was not sent. If too many messages were posted at once, tries again later. Any other
/// error makes the group fail, and is handled then.
void GroupSession::on_not_sent(const Error& cause) {
  {
    const std::lock_guard lock(mutex_);
    auto& memory = generation_->memory;
    memory.erase(memory.lower_bound(generation_->sent), memory.end());
  }
  if (cause.code == Errc::would_block)
    again_ = options_.loop.after(kAgain, [this] { with_memory([&] { flush(); }); });
}

}  // namespace rdmc::sockets
