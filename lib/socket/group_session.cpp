#include "lib/socket/group_session.hpp"

#include <algorithm>
#include <utility>

#include "dataplane/base/types.hpp"

namespace rdmc::sockets {
namespace {

/// After the node had no room for one more call.
constexpr Duration kAgain = milliseconds(1);

}  // namespace

void GroupSession::stop() {
  const auto self = shared_from_this();
  await_goodbye();
  options_.loop.call([this] {
    if (std::exchange(is_stopped_, true)) return;
    {
      const std::lock_guard lock(options_.lock);
      end_->on_send = nullptr;
      end_->on_room = nullptr;
    }
    say_goodbye();
    again_ = {};
    node_.reset();
  });
}

Result<void> GroupSession::open_node(std::uint32_t id, Address local) {
  local.port = 0;
  auto node = Node::create({.id = NodeId{id},
                            .address = local,
                            .fabric = options_.fabric,
                            .device = options_.device,
                            .encrypt = options_.encrypt});
  if (!node) return std::unexpected(node.error());
  node_ = std::move(*node);
  return {};
}

void GroupSession::attach() {
  end_->on_room = [this](std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      unread_ -= bytes;
    }
    later([](GroupSession& self) { self.give_room(); });
  };
  end_->on_send = [this] { later([](GroupSession& self) { self.flush(); }); };
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
  {
    const std::lock_guard sockets(options_.lock);
    for (const auto& [number, bytes] : fresh)
      if (!end_->on_message(number, bytes)) ignored += bytes->size();
    if (stable && end_->is_root()) end_->on_stable(*stable);
  }
  lock.lock();
  unread_ -= ignored;
}

/// With mutex_.
void GroupSession::leave_to_loop() {
  if (!std::exchange(is_told_, true)) later([](GroupSession& self) { self.hand_over(); });
}

/// Whom a view cannot be had with: another whom we have lost or never reached, or else us, which blaming the
/// root means.
std::uint32_t GroupSession::blamed_for(const GroupWord& view) const {
  const auto lost = std::ranges::find_if(view.nodes, [&](std::uint32_t node) {
    return NodeId{node} != node_->id() && !node_->is_connected(NodeId{node});
  });
  return lost == view.nodes.end() ? 0 : *lost;
}

void GroupSession::install(const GroupWord& view) {
  if (generation_) {
    // Its memory stays until it is known that nobody writes or reads it any more.
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

/// The application learns who is there, after what came before.
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
    unread_ += bytes.size();
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
    // Who blames itself does not know whom.
    if (failure.node && *failure.node != own) blamed = value_of(*failure.node);
    later([epoch, blamed](GroupSession& self) { self.on_group_failed(epoch, blamed); });
  };
  return on;
}

bool GroupSession::has_room(std::uint64_t bytes) const {
  return unread_ < GroupEnd::kMostKept && bytes <= GroupEnd::kMostMessageBytes;
}

/// Memory for a message, unless too much waits to be read: then there is some when it has been.
std::optional<std::span<std::byte>> GroupSession::place(Generation& generation, std::uint64_t message,
                                                        std::uint64_t bytes) {
  if (!has_room(bytes) || !generation.waiting.empty()) {
    generation.waiting.emplace(message, bytes);
    return std::nullopt;
  }
  auto& memory = generation.memory[message];
  memory = std::make_shared<std::vector<std::byte>>(bytes);
  return std::span(*memory);
}

void GroupSession::give_room() {
  if (!generation_) return;
  for (;;) {
    std::span<std::byte> room;
    {
      const std::lock_guard lock(mutex_);
      const auto first = generation_->waiting.begin();
      if (first == generation_->waiting.end() || !has_room(first->second)) return;
      auto& memory = generation_->memory[first->first];
      memory = std::make_shared<std::vector<std::byte>>(first->second);
      generation_->waiting.erase(first);
      room = *memory;
    }
    if (!node_->post_receive_buffer(GroupNumber{generation_->epoch}, room)) return;
  }
}

void GroupSession::flush() {
  for (;;) {
    GroupEnd::Bytes bytes;
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(options_.lock);
      if (!end_->is_root()) return;
      if (!generation_) return end_->on_stable(end_->next());  // for nobody
      number = generation_->sent;
      if (generation_->first + number == end_->next()) return;
      bytes = end_->message(generation_->first + number);
      const std::lock_guard shared(mutex_);
      generation_->memory[number] = bytes;
    }
    const auto sent = node_->send(GroupNumber{generation_->epoch}, *bytes);
    if (sent) {
      ++generation_->sent;
      continue;
    }
    // Too many at once; of all else the group's end tells.
    {
      const std::lock_guard lock(mutex_);
      generation_->memory.erase(number);
    }
    if (sent.error().code == Errc::would_block) again_ = options_.loop.after(kAgain, [this] { flush(); });
    return;
  }
}

}  // namespace rdmc::sockets
