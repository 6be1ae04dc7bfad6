// The functions that the application calls, and the upcalls of the fabric thread.
#include "lib/membership/member_group.hpp"

#include <algorithm>

namespace rdmc {

MemberGroup::MemberGroup(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
MemberGroup::~MemberGroup() {
  impl_->leave();
}
Result<std::uint64_t> MemberGroup::send(std::span<const std::byte> bytes) {
  return impl_->send(bytes);
}
std::vector<MemberId> MemberGroup::connected() const {
  return impl_->connected();
}
Result<void> MemberGroup::post_receive_buffer(std::span<std::byte> buffer) {
  return impl_->post_receive_buffer(buffer);
}
bool MemberGroup::is_open(std::uint64_t epoch) const {
  return impl_->is_open(epoch);
}
bool MemberGroup::leads(std::uint64_t epoch) const {
  return impl_->leads(epoch);
}
void MemberGroup::leave(const Error& cause) {
  impl_->leave_soon(cause);
}
Result<void> MemberGroup::tell_root(std::span<const std::byte> note) {
  return impl_->tell_root(note);
}
Result<void> MemberGroup::change_root(MemberId member) {
  return impl_->change_root(member);
}
Result<void> MemberGroup::close(std::function<void(Result<void>)> closed) {
  return impl_->close(std::move(closed));
}

namespace {

/// Converts errors of the node to would_block if they only mean that the group waits for its next epoch.
std::unexpected<Error> in_turn(const Error& error) {
  if (error.code == Errc::not_found) return fail(Errc::would_block, "the group has not begun");
  if (error.code == Errc::peer_failed) return fail(Errc::would_block, "the group is being continued");
  return std::unexpected(error);
}

void raise(std::atomic<std::uint64_t>& number, std::uint64_t least) {
  std::uint64_t before = number;
  while (before < least && !number.compare_exchange_weak(before, least)) {
  }
}

}  // namespace

template <typename Action>
void MemberGroup::Impl::post(Action action) {
  setup_.peers->loop().post([weak = weak_from_this(), action = std::move(action)] {
    const auto self = weak.lock();
    if (self && self->groups_ != nullptr) action(*self);
  });
}

Result<void> MemberGroup::Impl::may_call() const {
  if (is_over_) return fail(Errc::cancelled, "the group is over");
  if (is_closing_) return fail(Errc::cancelled, "the group is being closed");
  return {};
}

Result<std::uint64_t> MemberGroup::Impl::send(std::span<const std::byte> bytes) {
  if (auto may = may_call(); !may) return std::unexpected(may.error());
  if (is_draining_) return fail(Errc::would_block, "another member is to be the root");
  const auto sent = node_->send(setup_.number, bytes);
  if (!sent) return in_turn(sent.error());
  raise(sent_, *sent + 1);
  return sent;
}

Result<void> MemberGroup::Impl::post_receive_buffer(std::span<std::byte> buffer) {
  if (auto may = may_call(); !may) return may;
  auto posted = node_->post_receive_buffer(setup_.number, buffer);
  if (!posted) return in_turn(posted.error());
  return posted;
}

Result<void> MemberGroup::Impl::tell_root(std::span<const std::byte> note) {
  if (auto may = may_call(); !may) return may;
  auto told = node_->tell_root(setup_.number, note);
  if (!told) return in_turn(told.error());
  return told;
}

std::vector<MemberId> MemberGroup::Impl::connected() const {
  std::vector<MemberId> members;
  {
    const std::lock_guard lock(mutex_);
    members = connected_;
  }
  std::erase_if(members, [this](MemberId member) { return !node_->is_connected(node_of(member)); });
  return members;
}

Result<void> MemberGroup::Impl::change_root(MemberId member) {
  if (setup_.options.root)
    return fail(Errc::invalid_argument, "the root of this group is what its option chooses");
  if (is_over_) return fail(Errc::cancelled, "the group is over");
  post([member](Impl& group) {
    auto& state = group.state_;
    if (std::ranges::find(state.participants, member) == state.participants.end()) return;
    state.wish = member;
    state.wish_number = group.groups_->next_number();
    group.groups_->tell();
  });
  return {};
}

Result<void> MemberGroup::Impl::close(std::function<void(Result<void>)> closed) {
  {
    const std::lock_guard lock(mutex_);
    if (auto may = may_call(); !may) return may;
    closed_ = std::move(closed);
    is_closing_ = true;
  }
  post([](Impl& group) { group.check_closing(); });
  return {};
}

void MemberGroup::Impl::leave_soon(const Error& cause) {
  post([cause](Impl& group) { group.give_up(cause); });
}

void MemberGroup::Impl::leave() {
  control::ControlLoop& loop = setup_.peers->loop();
  loop.call([this] {
    if (groups_ != nullptr) std::exchange(groups_, nullptr)->remove(setup_.number);
  });
  owned_.reset();
  loop.call([] {});  // waits for what the node's upcalls have posted
}

std::optional<MemberId> MemberGroup::Impl::member_of(std::optional<NodeId> node) const {
  const std::lock_guard lock(mutex_);
  if (!node || epochs_.empty()) return std::nullopt;
  for (const auto& [number, epoch] : epochs_)
    for (const MemberId member : epoch.participants)
      if (node_of(member) == *node) return member;
  return std::nullopt;
}

std::function<void(Result<void>)> MemberGroup::Impl::take_closed() {
  const std::lock_guard lock(mutex_);
  return std::exchange(closed_, {});
}

GroupCallbacks MemberGroup::Impl::callbacks() {
  const MemberGroupCallbacks& told = setup_.callbacks;
  GroupCallbacks on;
  on.incoming = told.incoming;
  on.delivered = told.delivered;
  on.reusable = told.reusable;
  on.stable = [this](std::uint64_t count) {
    stable_ = count;
    if (setup_.callbacks.stable) setup_.callbacks.stable(count);
    if (is_closing_) post([](Impl& group) { group.check_closing(); });
    if (is_draining_) post([](Impl& group) { group.check_drained(); });
  };
  if (told.held_up)
    on.held_up = [this](std::optional<NodeId> node, std::uint64_t message) {
      setup_.callbacks.held_up(member_of(node), message);
    };
  if (told.told)
    on.told = [this](NodeId from, std::span<const std::byte> note) {
      if (const auto member = member_of(from)) setup_.callbacks.told(*member, note);
    };
  on.failed = [this](const GroupFailure& why) {
    const auto epoch = node_->epoch(setup_.number);
    if (is_over_ || !epoch) return;
    // The error `cancelled` is not a failure. It means that the other members go on already, because the
    // coordinator has begun another epoch.
    if (why.error.code != Errc::cancelled && setup_.callbacks.interrupted)
      setup_.callbacks.interrupted(why.error);
    post([epoch = *epoch, node = why.node, error = why.error](Impl& group) {
      group.on_failed(epoch, node, error);
    });
  };
  on.continued = [this](std::uint64_t next) {
    const auto epoch = node_->epoch(setup_.number);
    if (is_over_ || !epoch) return;
    GroupView now{.epoch = *epoch, .members = {}, .root = {}, .next = next};
    {
      const std::lock_guard lock(mutex_);
      epochs_.erase(epochs_.begin(), epochs_.lower_bound(*epoch));
      const auto found = epochs_.find(*epoch);
      if (found == epochs_.end()) return;
      now.members = found->second.participants;
      now.root = found->second.root;
    }
    raise(sent_, next);
    is_root_ = now.root == setup_.self;
    if (is_root_) led_ = *epoch;
    opened_ = *epoch;
    stable_ = next;
    is_draining_ = false;  // set before the upcall, because the application may send in the upcall
    if (setup_.callbacks.continued) setup_.callbacks.continued(now);
    post([epoch = *epoch](Impl& group) { group.on_continued(epoch); });
  };
  return on;
}

}  // namespace rdmc
