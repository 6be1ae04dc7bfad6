#include "lib/socket/group_member.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lib/socket/group_book.hpp"

namespace rdmc::sockets {
namespace {

/// The time limit for finding the root and proving the key, and the time limit for then getting a view that
/// contains this member.
constexpr Duration kDialing = seconds(30), kJoining = seconds(30);

}  // namespace

void GroupMember::join(const Address& root, int (*errno_of)(const Error&)) {
  later([root, errno_of](GroupSession& session) {
    auto& self = static_cast<GroupMember&>(session);
    self.patience_ = self.options_.loop.after(kDialing + kJoining, [&self] {
      if (!self.is_in_) self.give_up(ETIMEDOUT);
    });
    const std::string at = to_string(root);
    const auto text = std::as_bytes(std::span(at));
    self.attempt_ = self.options_.peers.open(
        host_string(root), root.port, kDialing, kService,
        {.greeting = {text.begin(), text.end()}, .blob = {}},
        [weak = std::weak_ptr(std::static_pointer_cast<GroupMember>(self.shared_from_this())), errno_of](
            Result<control::Channel> channel, const peer::Offer&) {
          const auto alive = weak.lock();
          if (!alive || alive->is_stopped_) return;
          if (channel) return alive->start(std::move(*channel));
          const bool is_nobody = channel.error().code == Errc::not_found;
          alive->give_up(is_nobody ? ECONNREFUSED : errno_of(channel.error()));
        });
  });
}

void GroupMember::start(control::Channel channel) {
  channel_.emplace(std::move(channel));
  const auto weak = std::weak_ptr(std::static_pointer_cast<GroupMember>(shared_from_this()));
  channel_->start(
      [weak](const std::vector<std::byte>& message) {
        const auto self = weak.lock();
        if (!self || self->is_stopped_) return;
        const auto word = decode_group_word(message);
        if (!word) return self->give_up(EPROTO);
        self->on_word(*word);
      },
      [weak](const Error& cause) {
        const auto self = weak.lock();
        if (!self || self->is_stopped_) return;
        // If the channel ends in order before the first view, the root has refused this member: the root has
        // no such group, or the group is full.
        self->give_up(cause.code != Errc::cancelled ? ECONNRESET : self->is_in_ ? 0 : ECONNREFUSED);
      });
  patience_ = options_.loop.after(kJoining, [this] {
    if (!is_in_) give_up(ETIMEDOUT);
  });
  const auto name = std::as_bytes(std::span(options_.group));
  say(*channel_, {.kind = GroupWordKind::join, .node = {}, .nodes = {}, .bytes = {name.begin(), name.end()}});
}

void GroupMember::on_word(const GroupWord& word) {
  switch (word.kind) {
    case GroupWordKind::welcome: return on_welcome(word);
    case GroupWordKind::peer: return on_peer(word);
    case GroupWordKind::offer:
      if (!word.node || !peers_.contains(*word.node)) return give_up(EPROTO);
      // A peer that cannot be reached may have died. Then the root reports its death. If the peer lives, no
      // view can contain both this member and the peer.
      if (connect(*word.node, word.bytes)) connected(*word.node);
      return;
    case GroupWordKind::view: return on_view(word);
    // If the message names a node, this member was removed. Otherwise the group has ended.
    case GroupWordKind::failed: return give_up(word.node ? ECONNRESET : 0);
    default: return give_up(EPROTO);
  }
}

void GroupMember::on_welcome(const GroupWord& word) {
  if (missing_ || !word.node) return give_up(EPROTO);
  self_ = *word.node;
  missing_.emplace(word.nodes.begin(), word.nodes.end());
  if (!open_node(self_, channel_->local())) return give_up(ENOBUFS);
  for (const std::uint32_t peer : word.nodes) offer_to(peer);
}

/// Handles the message that a peer is about to join, or, if the event is 1, that a peer has gone.
void GroupMember::on_peer(const GroupWord& word) {
  if (!missing_ || !word.node) return give_up(EPROTO);
  if (word.event == 0) return offer_to(*word.node);
  disconnect(*word.node);
  connected(*word.node);
}

/// Sends an offer to `peer`. The number of peers is limited. So a root that lies about its members gets no
/// more of this process's resources than a root with kMostMembers members.
void GroupMember::offer_to(std::uint32_t peer) {
  if (peers_.size() >= GroupBook::kMostMembers || !peers_.insert(peer).second) return give_up(EPROTO);
  const auto ours = offer(peer);
  if (!ours) return give_up(ENOBUFS);
  say(*channel_, {.kind = GroupWordKind::offer, .node = peer, .nodes = {}, .bytes = *ours});
}

void GroupMember::disconnect(std::uint32_t peer) {
  peers_.erase(peer);
  GroupSession::disconnect(peer);
}

/// Called when `peer` is connected or has gone. In both cases this member no longer waits for `peer`.
void GroupMember::connected(std::uint32_t peer) {
  if (!missing_) return give_up(EPROTO);
  missing_->erase(peer);
  if (!missing_->empty() || std::exchange(is_ready_, true)) return;
  say(*channel_, {.kind = GroupWordKind::ready, .node = {}, .nodes = {}, .bytes = {}});
}

void GroupMember::on_view(const GroupWord& word) {
  if (!is_ready_ || std::ranges::find(word.nodes, self_) == word.nodes.end()) return give_up(EPROTO);
  if (!std::exchange(is_in_, true)) {
    const std::lock_guard lock(options_.lock);
    end_->open(word.next);
  }
  install(word);
}

void GroupMember::on_group_failed(std::uint64_t epoch, std::optional<std::uint32_t> blamed) {
  if (!channel_) return;
  say(*channel_, {.kind = GroupWordKind::failed, .node = blamed, .epoch = epoch, .nodes = {}, .bytes = {}});
  if (blamed == self_) give_up(ENOBUFS);
}

void GroupMember::give_up(int error) {
  if (channel_) channel_->close();
  hand_over();  // Messages that arrived before can still be read.
  const std::lock_guard lock(options_.lock);
  end_->end(error);
}

void GroupMember::say_goodbye() {
  attempt_ = {};
  patience_ = {};
  if (channel_) channel_->close();
  channel_.reset();
}

}  // namespace rdmc::sockets
