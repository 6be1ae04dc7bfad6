// The application's interface. Its calls are posted to the control loop. The values that it may read at any
// moment are stored where every thread can read them.
#include "lib/include/rdmc/membership.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "controlplane/membership/membership.hpp"
#include "controlplane/peer/context.hpp"
#include "dataplane/base/no_memory.hpp"
#include "lib/identity_of.hpp"
#include "lib/membership/member_group.hpp"
#include "lib/membership/store.hpp"

namespace rdmc {
namespace {

MemberId public_id(view::MemberId id) {
  return MemberId{value_of(id)};
}

/// Allocated in advance, because there may be no memory when it is needed.
const Error kNoMember{Errc::cancelled, "this process is no member any more"};

View public_view(const view::View& view) {
  View shown{.epoch = view.epoch, .members = {}};
  for (const view::Member& member : view.members)
    shown.members.push_back(
        {.id = public_id(member.id), .name = member.name, .address = member.address, .since = member.since});
  return shown;
}

}  // namespace

const Member* View::find(MemberId id) const {
  const auto found = std::ranges::find(members, id, &Member::id);
  return found == members.end() ? nullptr : &*found;
}

class Membership::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(const MembershipOptions& options, MembershipCallbacks callbacks)
      : options_(options), callbacks_(std::move(callbacks)) {}

  Result<void> open();
  void close();

  MemberId id() const { return self_.id; }
  const Address& address() const { return self_.address; }
  View view() const {
    const std::lock_guard lock(mutex_);
    return view_;
  }
  Result<void> broadcast(std::span<const std::byte> bytes);
  Result<void> write(std::uint64_t offset, std::span<const std::byte> bytes);
  std::span<const std::byte> window() const { return member_->window(); }
  void remove(MemberId member, std::function<void(Result<void>)> done);
  void leave();
  bool holds_lease(Epoch epoch) const { return member_->holds_lease(epoch); }
  MembershipCounters counters() const;
  Result<std::unique_ptr<MemberGroup>> create_group(GroupNumber number, const MemberGroupOptions& options,
                                                    MemberGroupCallbacks callbacks);

 private:
  Result<void> open_on_loop();
  membership::Upcalls upcalls();
  void on_installed(const view::View& view);
  void on_removed(const view::View& view);
  void on_node_ended(const Error& cause);
  void tell_node_ended();
  Result<void> may_speak() const {
    if (is_member_) return {};
    return fail(Errc::cancelled, "this process is no member of the view");
  }
  template <typename Action>
  void post(Action action) {
    peers_->loop().post([weak = weak_from_this(), action = std::move(action)] {
      const auto self = weak.lock();
      if (self && !self->is_closed_) action(*self);
    });
  }

  const MembershipOptions options_;
  const MembershipCallbacks callbacks_;
  std::shared_ptr<peer::Peers> peers_;
  member_groups::OpenStore store_;
  std::unique_ptr<member_groups::Groups> groups_;  // only the control loop uses it
  std::unique_ptr<membership::Membership> member_;
  Member self_;
  bool is_closed_ = false;           // only the control loop uses it
  std::optional<Error> node_ended_;  // only the control loop uses it
  bool is_node_end_told_ = false;    // only the control loop uses it
  std::atomic<bool> is_member_ = false;
  mutable std::mutex mutex_;  // protects view_
  View view_;
};

Result<void> Membership::Impl::open() {
  const auto context = options_.context ? options_.context : process_context();
  auto peers = context->peers(identity_of(options_));
  if (!peers) return std::unexpected(peers.error());
  peers_ = std::move(*peers);
  auto store = member_groups::open_store(peers_->loop(), peers_->options(), options_.store,
                                         [this](const Error& cause) { on_node_ended(cause); });
  if (!store) return std::unexpected(store.error());
  store_ = std::move(*store);
  // Upcalls run on the control loop, so this call returns before the first upcall.
  return peers_->loop().call([this] { return open_on_loop(); });
}

Result<void> Membership::Impl::open_on_loop() {
  auto joined = membership::Membership::join(peers_, *store_.client,
                                             {.group = options_.group,
                                              .name = options_.name,
                                              .listen = options_.address,
                                              .fabric = options_.fabric,
                                              .device = options_.device,
                                              .window_bytes = options_.window_bytes,
                                              .encrypt = options_.encrypt,
                                              .lease = options_.lease,
                                              .context = options_.context},
                                             upcalls());
  if (!joined) return std::unexpected(joined.error());
  member_ = std::move(*joined);
  const view::Member& self = member_->view().self();
  self_ = {.id = public_id(self.id), .name = self.name, .address = self.address};
  groups_ = std::make_unique<member_groups::Groups>(peers_, options_.group);
  if (auto opened = groups_->open(self_.id); !opened) return opened;
  post([](Impl& impl) { impl.tell_node_ended(); });
  return {};
}

/// Called when the store node has ended. If this happens before the membership is open, the application is
/// informed after the opening.
void Membership::Impl::on_node_ended(const Error& cause) {
  if (is_closed_) return;
  node_ended_ = copy_of(cause);
  if (member_) tell_node_ended();
}

void Membership::Impl::tell_node_ended() {
  if (!node_ended_ || std::exchange(is_node_end_told_, true)) return;
  if (callbacks_.store_node_ended) callbacks_.store_node_ended(*node_ended_);
}

void Membership::Impl::close() {
  if (peers_ == nullptr) return;
  peers_->loop().call([this] {
    is_closed_ = true;
    is_member_ = false;
    if (groups_) groups_->end({Errc::cancelled, "the membership is over"});
    groups_.reset();
  });
  member_.reset();
  store_.client.reset();
  store_.node.reset();
  peers_->loop().call([] {});  // waits for what was posted for this object
}

membership::Upcalls Membership::Impl::upcalls() {
  membership::Upcalls to;
  const auto is_told = [this](const auto& callback) { return !is_closed_ && callback; };
  to.installed = [this](const view::View& view) { on_installed(view); };
  to.removed = [this](const view::View& view) { on_removed(view); };
  to.delivered = [this, is_told](view::MemberId from, std::span<const std::byte> bytes) {
    if (is_told(callbacks_.delivered)) callbacks_.delivered(public_id(from), bytes);
  };
  to.store_lost = callbacks_.store_lost;
  to.store_found = callbacks_.store_found;
  to.unreachable = [this, is_told](const view::Unreachable& link) {
    if (is_told(callbacks_.unreachable))
      callbacks_.unreachable(
          {.member = public_id(link.member), .is_heard = link.heard, .hears_us = link.hears_us});
  };
  to.reachable = [this, is_told](view::MemberId member) {
    if (is_told(callbacks_.reachable)) callbacks_.reachable(public_id(member));
  };
  to.earlier_leases_over = [this](Epoch epoch) {
    if (is_closed_) return;
    if (callbacks_.earlier_leases_over) callbacks_.earlier_leases_over(epoch);
    groups_->on_leases_over(epoch);
  };
  to.lease_gained = callbacks_.lease_gained;
  to.lease_lost = callbacks_.lease_lost;
  to.refused = callbacks_.refused;
  return to;
}

void Membership::Impl::on_installed(const view::View& view) {
  if (is_closed_) return;
  const View shown = public_view(view);
  View kept = shown;
  {
    const std::lock_guard lock(mutex_);
    view_ = std::move(kept);  // a move cannot fail, so view_ is always a complete view
  }
  is_member_ = true;
  if (callbacks_.installed) callbacks_.installed(shown);
  groups_->install(shown);
}

void Membership::Impl::on_removed(const view::View& view) {
  if (is_closed_) return;
  is_member_ = false;
  const bool is_out = view.find(view::MemberId{value_of(id())}) == nullptr;
  groups_->end(is_out ? kNoMember : no_memory());
  if (!callbacks_.removed) return;
  std::optional<View> shown;
  try {
    shown = public_view(view);
  } catch (const std::bad_alloc&) {
    // In this case the upcall gets the view that was installed last. Only this thread changes that view.
  }
  callbacks_.removed(shown ? *shown : view_);
}

Result<void> Membership::Impl::broadcast(std::span<const std::byte> bytes) {
  if (bytes.size() > kMostBytes) return fail(Errc::invalid_argument, "a message that is too long");
  if (auto may = may_speak(); !may) return may;
  // If this process is removed before the task runs, the message goes to no member.
  post([copy = std::vector(bytes.begin(), bytes.end())](Impl& self) {
    static_cast<void>(self.member_->broadcast(copy));
  });
  return {};
}

Result<void> Membership::Impl::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (offset > options_.window_bytes || bytes.size() > options_.window_bytes - offset ||
      bytes.size() > kMostBytes)
    return fail(Errc::invalid_argument, "a write beyond the window");
  if (auto may = may_speak(); !may) return may;
  post([offset, copy = std::vector(bytes.begin(), bytes.end())](Impl& self) {
    static_cast<void>(self.member_->write(offset, copy));
  });
  return {};
}

void Membership::Impl::remove(MemberId member, std::function<void(Result<void>)> done) {
  peers_->loop().post([weak = weak_from_this(), member, done = std::move(done)] {
    const auto self = weak.lock();
    auto removed = self && !self->is_closed_ ? self->member_->remove(view::MemberId{value_of(member)})
                                             : fail(Errc::cancelled, "the membership is over");
    if (done) done(std::move(removed));
  });
}

void Membership::Impl::leave() {
  post([](Impl& self) { self.member_->leave(); });
}

MembershipCounters Membership::Impl::counters() const {
  return peers_->loop().call([this]() -> MembershipCounters {
    const membership::Counters now = member_->counters();
    const view::FailureView::Counters& views = member_->view().counters();
    return {.installed = now.installed,
            .delivered = now.delivered,
            .fenced = now.fenced,
            .dropped = now.dropped,
            .deaths_seen = now.deaths_seen,
            .paths_failed = now.paths_failed,
            .unreachable = views.unreachable,
            .refused = now.mismatched,
            .store_failures = views.store_failures,
            .store_nodes_ended = node_ended_ ? 1U : 0U};
  });
}

Result<std::unique_ptr<MemberGroup>> Membership::Impl::create_group(GroupNumber number,
                                                                    const MemberGroupOptions& options,
                                                                    MemberGroupCallbacks callbacks) {
  if (options.group.epoch != 0 || !options.group.racks.empty() || options.group.read_only)
    return fail(Errc::invalid_argument,
                "a group of a membership has no epoch, racks or read_only of its own");
  // The control loop sometimes waits for the fabric thread, and this function waits for the control loop.
  const auto context = options_.context ? options_.context : process_context();
  if (context->is_on_fabric_thread())
    return fail(Errc::invalid_argument, "an upcall of a group cannot make another one");
  Address address = options_.address;
  address.port = 0;
  auto node = Node::create({.id = MemberGroup::Impl::node_of(id()),
                            .address = address,
                            .fabric = options_.fabric,
                            .device = options_.device,
                            .context = options_.context,
                            .encrypt = options_.encrypt});
  if (!node) return std::unexpected(node.error());
  auto made = std::make_shared<MemberGroup::Impl>(MemberGroup::Impl::Setup{.peers = peers_,
                                                                           .self = id(),
                                                                           .number = number,
                                                                           .options = options,
                                                                           .callbacks = std::move(callbacks)},
                                                  std::move(*node));
  auto opened = peers_->loop().call([&]() -> Result<void> {
    if (groups_ == nullptr) return fail(Errc::cancelled, "the membership is over");
    return made->open(*groups_);
  });
  if (!opened) return std::unexpected(opened.error());
  return std::unique_ptr<MemberGroup>(new MemberGroup(std::move(made)));
}

Membership::Membership(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Membership::~Membership() {
  impl_->close();
}

Result<std::unique_ptr<Membership>> Membership::join(const MembershipOptions& options,
                                                     MembershipCallbacks callbacks) {
  auto impl = std::make_shared<Impl>(options, std::move(callbacks));
  auto membership = std::unique_ptr<Membership>(new Membership(impl));
  if (auto opened = impl->open(); !opened) return std::unexpected(opened.error());
  return membership;
}

MemberId Membership::id() const {
  return impl_->id();
}
const Address& Membership::address() const {
  return impl_->address();
}
View Membership::view() const {
  return impl_->view();
}
Result<void> Membership::broadcast(std::span<const std::byte> bytes) {
  return impl_->broadcast(bytes);
}
Result<void> Membership::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  return impl_->write(offset, bytes);
}
std::span<const std::byte> Membership::window() const {
  return impl_->window();
}
void Membership::remove(MemberId member, std::function<void(Result<void>)> done) {
  impl_->remove(member, std::move(done));
}
void Membership::leave() {
  impl_->leave();
}
bool Membership::holds_lease(Epoch epoch) const {
  return impl_->holds_lease(epoch);
}
MembershipCounters Membership::counters() const {
  return impl_->counters();
}
Result<std::unique_ptr<MemberGroup>> Membership::create_group(GroupNumber number,
                                                              const MemberGroupOptions& options,
                                                              MemberGroupCallbacks callbacks) {
  return impl_->create_group(number, options, std::move(callbacks));
}

}  // namespace rdmc
