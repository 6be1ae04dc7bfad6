#include "lib/socket/group_session.hpp"

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
      end_->on_send = end_->on_room = nullptr;
    }
    say_goodbye();
    again_ = {};
    node_.reset();
  });
}

Result<void> GroupSession::open_node(std::uint32_t id, Address local) {
  local.port = 0;
  auto node = Node::create(
      {.id = NodeId{id}, .address = local, .fabric = options_.fabric, .encrypt = options_.encrypt});
  if (!node) return std::unexpected(node.error());
  node_ = std::move(*node);
  return {};
}

void GroupSession::attach() {
  end_->on_room = [this] { later([](GroupSession& self) { self.give_room(); }); };
  end_->on_send = [this] { later([](GroupSession& self) { self.flush(); }); };
}

void GroupSession::install(const GroupWord& view) {
  if (generation_) {
    // Its memory stays until it is known that nobody writes or reads it any more.
    (void)node_->destroy_group(GroupNumber{generation_->epoch}, [old = generation_](const Result<void>&) {});
    generation_.reset();
  }
  std::vector<NodeId> members;
  for (const std::uint32_t node : view.nodes) members.push_back(NodeId{node});
  if (members.size() > 1) {
    auto next = std::make_shared<Generation>();
    next->epoch = view.epoch;
    next->first = view.first;
    const auto made = node_->create_group(GroupNumber{view.epoch}, members, NodeId{0}, {.epoch = view.epoch},
                                          callbacks(next));
    if (!made) return on_group_failed(view.epoch, 0);
    generation_ = std::move(next);
  }
  tell(view);
  flush();
}

/// The application learns who is there.
void GroupSession::tell(const GroupWord& view) {
  const std::lock_guard lock(options_.lock);
  end_->members = static_cast<std::uint32_t>(view.nodes.size());
  if (!view.node) return;
  end_->on_event(
      {.kind = view.event, .member = *view.node, .members = end_->members, .zero = 0, .view = view.epoch});
}

GroupCallbacks GroupSession::callbacks(const Held& generation) {
  GroupCallbacks on;
  on.incoming = [this, generation](std::uint64_t message, std::uint64_t bytes) {
    const std::lock_guard lock(options_.lock);
    return place(*generation, message, bytes);
  };
  on.delivered = [this, generation](std::uint64_t message, std::span<std::byte>) {
    const std::lock_guard lock(options_.lock);
    end_->on_message(generation->first + message, generation->memory.at(message));
  };
  on.reusable = [this, generation](std::uint64_t message) {
    const std::lock_guard lock(options_.lock);
    generation->memory.erase(message);
  };
  on.stable = [this, generation](std::uint64_t count) {
    const std::lock_guard lock(options_.lock);
    if (end_->is_root()) end_->on_stable(generation->first + count);
  };
  on.failed = [this, epoch = generation->epoch, own = node_->id()](const GroupFailure& failure) {
    std::optional<std::uint32_t> blamed;
    // Who blames itself does not know whom.
    if (failure.node && *failure.node != own) blamed = value_of(*failure.node);
    later([epoch, blamed](GroupSession& self) { self.on_group_failed(epoch, blamed); });
  };
  return on;
}

/// Memory for a message, unless too much waits to be read: then there is some when it has been.
std::optional<std::span<std::byte>> GroupSession::place(Generation& generation, std::uint64_t message,
                                                        std::uint64_t bytes) {
  if (!end_->has_room() || bytes > GroupEnd::kMostMessageBytes || !generation.waiting.empty()) {
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
      const std::lock_guard lock(options_.lock);
      const auto first = generation_->waiting.begin();
      if (first == generation_->waiting.end() || !end_->has_room() ||
          first->second > GroupEnd::kMostMessageBytes)
        return;
      auto& memory = generation_->memory[first->first];
      memory = std::make_shared<std::vector<std::byte>>(first->second);
      generation_->waiting.erase(first);
      room = *memory;
    }
    if (!node_->post_receive_buffer(GroupNumber{generation_->epoch}, room)) return;
  }
}

void GroupSession::flush() {
  std::unique_lock lock(options_.lock);
  if (!end_->is_root()) return;
  if (!generation_) return end_->on_stable(end_->next());  // for nobody
  Generation& now = *generation_;
  while (now.first + now.sent < end_->next()) {
    const GroupEnd::Bytes bytes = end_->message(now.first + now.sent);
    const auto number = now.sent++;
    now.memory[number] = bytes;
    lock.unlock();
    const auto sent = node_->send(GroupNumber{now.epoch}, *bytes);
    lock.lock();
    if (sent) continue;
    // Too many at once; of all else the group's end tells.
    now.memory.erase(number);
    --now.sent;
    if (sent.error().code == Errc::would_block) again_ = options_.loop.after(kAgain, [this] { flush(); });
    return;
  }
}

}  // namespace rdmc::sockets
