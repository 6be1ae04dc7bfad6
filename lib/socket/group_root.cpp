#include "lib/socket/group_root.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace rdmc::sockets {
namespace {

/// The time for members to receive the message that the group ends.
constexpr Duration kGoodbye = seconds(1);

}  // namespace

void GroupRoot::on_channel(control::Channel channel) {
  if (is_stopped_ || leaving_ != Leaving::no) return;
  auto owned = std::make_unique<Caller>(std::move(channel));
  Caller* const caller = owned.get();
  callers_[caller] = std::move(owned);
  const auto weak = std::weak_ptr(std::static_pointer_cast<GroupRoot>(shared_from_this()));
  caller->channel.start(
      [weak, caller](const std::vector<std::byte>& message) {
        const auto self = weak.lock();
        if (!self || !self->callers_.contains(caller)) return;
        if (auto word = decode_group_word(message))
          self->on_word(*caller, std::move(*word));
        else
          self->end(*caller, false);
      },
      [weak, caller](const Error& cause) {
        const auto self = weak.lock();
        if (self && self->callers_.contains(caller)) self->end(*caller, cause.code == Errc::cancelled);
      });
  wait_for(*caller);
}

/// Starts the time limit of a caller. The caller must name the group that it wants to join within
/// options_.introduction, and then become ready within the same time.
void GroupRoot::wait_for(Caller& caller) {
  caller.patience = options_.loop.after(options_.introduction, [this, &caller] { end(caller, false); });
}

void GroupRoot::on_word(Caller& from, GroupWord word) {
  if (leaving_ == Leaving::has_told) return;
  if (word.kind == GroupWordKind::join && !from.node) return on_join(from, word);
  if (!from.node) return end(from, false);
  switch (word.kind) {
    case GroupWordKind::offer: return on_offer(from, std::move(word));
    case GroupWordKind::ready: return on_ready(from);
    case GroupWordKind::failed: return change(book_.failed(*from.node, word.epoch, word.node));
    default: return end(from, false);
  }
}

void GroupRoot::on_join(Caller& from, const GroupWord& word) {
  const bool is_ours = word.bytes.size() == options_.group.size() &&
                       std::memcmp(word.bytes.data(), options_.group.data(), word.bytes.size()) == 0;
  if (!has_node() && is_ours && !open_node(GroupBook::kRoot, from.channel.local())) return end(from, false);
  auto others = book_.others();
  from.node = is_ours ? book_.join() : std::nullopt;
  if (!from.node) return end(from, true);
  wait_for(from);
  for (const std::uint32_t node : others)
    say(find(node)->channel, {.kind = GroupWordKind::peer, .node = from.node, .nodes = {}, .bytes = {}});
  others.insert(others.begin(), GroupBook::kRoot);
  say(from.channel, {.kind = GroupWordKind::welcome, .node = from.node, .nodes = others, .bytes = {}});
  const auto ours = offer(*from.node);
  if (!ours) return end(from, false);
  say(from.channel, {.kind = GroupWordKind::offer, .node = GroupBook::kRoot, .nodes = {}, .bytes = *ours});
}

void GroupRoot::on_ready(Caller& from) {
  const auto view = book_.ready(*from.node);
  if (!view) return;
  from.patience.reset();
  change(view);
}

/// Passes an offer on to the member that it is for. If it is for the root itself, connects the root's node.
void GroupRoot::on_offer(Caller& from, GroupWord word) {
  if (word.node == GroupBook::kRoot) {
    if (!connect(*from.node, word.bytes)) end(from, false);
    return;
  }
  Caller* const to = word.node ? find(*word.node) : nullptr;
  if (to == nullptr) return;  // The member has gone meanwhile.
  word.node = from.node;
  say(to->channel, word);
}

GroupRoot::Caller* GroupRoot::find(std::uint32_t node) {
  for (const auto& [key, caller] : callers_)
    if (caller->node == node) return caller.get();
  return nullptr;
}

/// Removes a caller. If its channel is still open, this closes the channel.
void GroupRoot::end(Caller& caller, bool orderly) {
  auto gone = callers_.extract(&caller);
  if (leaving_ == Leaving::has_told) return callers_.empty() ? end_soon() : void();
  if (!caller.node) return;
  for (const auto& [key, other] : callers_) {
    if (!other->node) continue;
    say(other->channel,
        {.kind = GroupWordKind::peer, .event = 1, .node = caller.node, .nodes = {}, .bytes = {}});
    // Members that joined later may have waited only for this caller. Their time limit starts again.
    if (other->patience && other->node > caller.node) wait_for(*other);
  }
  change(book_.lost(*caller.node, orderly));
  disconnect(*caller.node);
}

void GroupRoot::on_group_failed(std::uint64_t epoch, std::optional<std::uint32_t> blamed) {
  if (leaving_ == Leaving::has_told) return;
  if (blamed != GroupBook::kRoot) return change(book_.failed(GroupBook::kRoot, epoch, blamed));
  say_goodbye();  // From here on, nothing can be sent any more.
  if (leaving_ == Leaving::sends) end_soon();
  const std::lock_guard lock(options_.lock);
  end_->end(ENOBUFS);
}

void GroupRoot::change(const std::optional<GroupBook::View>& view) {
  if (!view) return;
  const Backlog backlog = take_over();
  const GroupWord word{.kind = GroupWordKind::view,
                       .event = static_cast<std::uint8_t>(view->event),
                       .node = view->subject,
                       .epoch = view->epoch,
                       .first = backlog.first,
                       .next = backlog.next,
                       .nodes = view->nodes,
                       .bytes = {}};
  for (const auto& [key, caller] : callers_)
    if (caller->node && std::ranges::find(view->nodes, *caller->node) != view->nodes.end())
      say(caller->channel, word);
  // Tell the removed member, if it can still be reached.
  if (Caller* const out = view->subject && !book_.contains(*view->subject) ? find(*view->subject) : nullptr) {
    say(out->channel, {.kind = GroupWordKind::failed, .node = out->node, .nodes = {}, .bytes = {}});
    out->channel.close();
    callers_.erase(out);
  }
  install(word);
}

void GroupRoot::begin_to_leave(Duration longest) {
  leaving_ = Leaving::sends;
  leave_patience_ = options_.loop.after(longest, [this] { with_memory([this] { say_the_end(); }); });
  on_progress();
}

void GroupRoot::on_progress() {
  if (leaving_ != Leaving::sends) return;
  {
    const std::lock_guard lock(options_.lock);
    if (end_->first() != end_->next()) return;
  }
  say_the_end();
}

/// Tells the members that the group ends, before their nodes notice it themselves.
void GroupRoot::say_the_end() {
  if (is_stopped_ || leaving_ != Leaving::sends) return;
  leaving_ = Leaving::has_told;
  for (const auto& [key, caller] : callers_)
    say(caller->channel, {.kind = GroupWordKind::failed, .node = {}, .nodes = {}, .bytes = {}});
  if (callers_.empty()) return end_soon();
  leave_patience_ = options_.loop.after(kGoodbye, [this] { end_soon(); });
}

void GroupRoot::say_goodbye() {
  for (const auto& [key, caller] : callers_) caller->channel.close();
  callers_.clear();
}

}  // namespace rdmc::sockets
