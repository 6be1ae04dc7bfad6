#include "controlplane/membership/membership.hpp"

#include <algorithm>
#include <utility>

#include "controlplane/auth/random.hpp"
#include "controlplane/membership/membership_impl.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/fabric/host_identity.hpp"

namespace rdmc::membership {

Result<void> Membership::Impl::open() {
  if (auto valid = view::check_group(options_.group); !valid) return valid;
  if (options_.encrypt && std::holds_alternative<control::Insecure>(peers_->options().security))
    return fail(Errc::invalid_argument,
                "insecure control connections would show the keys of what is encrypted");
  const auto random = control::SystemRandom::open();
  if (!random) return std::unexpected(random.error());
  auto service = peers_->serve("membership/" + options_.group, later([](Impl& impl, peer::Request request) {
                                 if (impl.core_) impl.on_request(std::move(request));
                               }));
  if (!service) return std::unexpected(service.error());
  service_ = std::move(*service);
  auto listener = peers_->listen(options_.listen, {.channel = peers_->options()});
  if (!listener) return std::unexpected(listener.error());
  listener_ = std::move(*listener);
  Address data_address = options_.listen;
  data_address.port = 0;
  const auto post = [&loop = loop_, self = weak_from_this()](auto action) {
    loop.post(later(self, std::move(action)));
  };
  auto data = DataPath::open(
      {.fabric = options_.fabric,
       .device = options_.device,
       .address = data_address,
       .window_bytes = options_.window_bytes,
       .encrypt = options_.encrypt,
       .context = options_.context},
      {.heard =
           [post](LinkId link, Bytes bytes, DataPath::Permit permit) {
             post([link, bytes = std::move(bytes), permit = std::move(permit)](Impl& impl) {
               impl.hear(link, bytes, impl.options_.encrypt);
             });
           },
       .failed = [post](LinkId link,
                        const std::string&) { post([link](Impl& impl) { impl.path_failed(link); }); }});
  if (!data) return std::unexpected(data.error());
  data_ = std::move(*data);
  view::Member self{.id = view::MemberId{random->next64()},
                    .name = options_.name,
                    .address = listener_->address(),
                    .fabrics = {data_->fabric_name().substr(0, view::kMaxFabricBytes)},
                    .host = fabric::host_identity(),
                    .lease = options_.lease,
                    .process = peers_->identity().process};
  self.process.thread = 0;
  if (const auto valid = view::check(self); !valid) return valid;
  return loop_.call([&]() -> Result<void> {
    core_.emplace(std::move(self), options_.timing);
    store_.watch(options_.group, later([](Impl& impl, std::optional<Epoch> epoch) {
                   impl.core_->on_hint(epoch, boottime_now());
                   impl.drive();
                 }));
    try {
      core_->start(boottime_now());
      drive();
    } catch (const std::bad_alloc&) {
      return fail(Errc::resource_limit, "no memory");
    }
    return {};
  });
}

void Membership::Impl::close() {
  closed_ = true;
  publish_lease();
  timer_ = {};
  granting_ = {};
  service_ = {};
  listener_.reset();
  dialing_.clear();
  asking_.clear();
  probes_.clear();
  probe_again_.clear();
  processes_.clear();
  ending_.clear();
  lost_paths_.clear();
  links_.clear();
}

/// Carries out the outputs of the failure view, and sets the timer. Must be called at the end of every input
/// to the failure view.
void Membership::Impl::drive() {
  // The lease must be published before the application is informed of a view.
  publish_lease();
  while (auto output = core_->poll()) handle(*output);
  // Most inputs only move the deadline to a later time. For such an input the timer is not set again: it
  // sometimes expires when there is nothing to do, and that is cheaper.
  const Time deadline = core_->next_deadline();
  if (deadline >= armed_for_) return;
  timer_ = loop_.after(std::max(Duration{}, deadline - boottime_now()), later(&Impl::on_timer));
  armed_for_ = deadline;
}

void Membership::Impl::on_timer() {
  armed_for_ = Time::never();
  core_->on_timer(boottime_now());
  drive();
}

void Membership::Impl::handle(view::Output& output) {
  if (const auto* const transmit = std::get_if<view::Transmit>(&output)) {
    for (const Address& to : transmit->to) say(to, *transmit);
  } else if (const auto* const asked = std::get_if<view::Listen>(&output)) {
    listen(asked->request);
  } else if (const auto* const who = std::get_if<view::AskListener>(&output)) {
    ask_listener(*who);
  } else if (const auto* const read = std::get_if<view::ReadStore>(&output)) {
    read_store(*read);
  } else if (const auto* const swap = std::get_if<view::SwapStore>(&output)) {
    swap_store(*swap);
  } else if (const auto* const installed = std::get_if<view::Installed>(&output)) {
    install(installed->view);
  } else if (const auto* const removed = std::get_if<view::Removed>(&output)) {
    be_removed(removed->view);
  } else if (const auto* const lost = std::get_if<view::StoreLost>(&output)) {
    if (upcalls_.store_lost) upcalls_.store_lost(lost->cause);
  } else if (std::holds_alternative<view::StoreFound>(output)) {
    if (upcalls_.store_found) upcalls_.store_found();
  } else if (const auto* const bad = std::get_if<view::Unreachable>(&output)) {
    if (upcalls_.unreachable) upcalls_.unreachable(*bad);
  } else if (const auto* const good = std::get_if<view::Reachable>(&output)) {
    if (upcalls_.reachable) upcalls_.reachable(good->member);
  } else if (const auto* const over = std::get_if<view::EarlierLeasesOver>(&output)) {
    ending_.clear();
    if (upcalls_.earlier_leases_over) upcalls_.earlier_leases_over(over->epoch);
  } else if (std::holds_alternative<view::LeaseGained>(output)) {
    if (upcalls_.lease_gained) upcalls_.lease_gained();
  } else if (std::holds_alternative<view::LeaseLost>(output)) {
    if (upcalls_.lease_lost) upcalls_.lease_lost();
  }
}

void Membership::Impl::publish_lease() {
  Lease now;
  if (core_ && !closed_)
    now = {.epoch = core_->view().epoch, .from = core_->takeover_at(), .until = core_->lease_until()};
  const std::lock_guard lock(lease_mutex_);
  lease_ = now;
}

bool Membership::Impl::holds_lease(Epoch epoch) const {
  const std::lock_guard lock(lease_mutex_);
  const Time now = boottime_now();
  return epoch == lease_.epoch && now >= lease_.from && now < lease_.until;
}

void Membership::Impl::listen(view::RequestId request) {
  when_heard([request](Impl& impl) {
    impl.core_->on_listened(request, boottime_now());
    impl.drive();
  });
}

/// Runs `action` after everything that has arrived by now is handled. This includes messages that the fabric
/// thread takes in and posts to the loop, and messages in the loop's own sockets. The loop checks its sockets
/// between two posts.
void Membership::Impl::when_heard(std::function<void(Impl&)> action) {
  data_->drain([&loop = loop_, then = later([action = std::move(action)](Impl& impl) {
                                 impl.loop_.post(impl.later(action));
                               })] { loop.post(then); });
}

void Membership::Impl::read_store(const view::ReadStore& read) {
  store_.read(view::name_of(read.entry, options_.group),
              later([request = read.request](Impl& impl, Result<view::View> result) {
                impl.core_->on_read(request, std::move(result), boottime_now());
                impl.look_for_exits();
                impl.drive();
              }));
}

void Membership::Impl::swap_store(const view::SwapStore& swap) {
  store_.compare_and_swap(
      view::name_of(swap.entry, options_.group), swap.next,
      later([request = swap.request, entry = swap.entry](Impl& impl, Result<view::SwapResult> result) {
        const bool agreed = entry == view::StoreEntry::view && result && result->swapped;
        if (agreed && impl.upcalls_.agreed) impl.upcalls_.agreed(result->current);
        impl.core_->on_swapped(request, std::move(result), boottime_now());
        impl.drive();
      }));
}

/// A joiner has had no connection to the members of the view, so it could not see their exits. It asks the
/// kernel about those on its host each time that it has read the view. If all members have exited, it need
/// not wait for them.
void Membership::Impl::look_for_exits() {
  if (core_->state() != view::FailureView::State::joining) return;
  std::vector<view::MemberId> exited;
  for (const view::Member& member : core_->view().members)
    if (has_exited(peers_->identity().process, member.process)) exited.push_back(member.id);
  for (const view::MemberId id : exited) core_->on_exited(id, boottime_now());
}

/// Makes the fence first, and then does everything else that follows from the new view.
void Membership::Impl::install(const view::View& view) {
  std::vector<LinkId> closed;
  for (auto& [id, link] : links_) {
    const bool stays = link.peer && view.contains(*link.peer);
    // The queue pair of a joiner is not destroyed either. A joiner can only send messages.
    if (!stays && link.member && link.connected) {
      closed.push_back(id);
      link.connected = link.ready = false;
    }
    link.member = stays;
  }
  tend_watches();
  const auto window = data_->fence(closed);
  window_ = window ? std::optional(*window) : std::nullopt;
  ++counters_.installed;
  if (upcalls_.installed) upcalls_.installed(view);
  // These exits were seen before this view was installed, so the processes could not be removed from it then.
  for (const auto& [id, process] : processes_)
    if (process.died && view.contains(id)) core_->on_gone(id, boottime_now());
  granting_ = loop_.after(kGrantAfter, later(&Impl::grant_windows));
  for (auto& [id, link] : links_) {
    if (!link.peer || !view.contains(*link.peer)) continue;
    for (Data& data : std::exchange(link.early, {})) take(link, std::move(data));
  }
}

void Membership::Impl::fence_everybody() {
  std::vector<LinkId> all;
  for (const auto& [id, link] : links_) all.push_back(id);
  static_cast<void>(data_->fence(all));
}

void Membership::Impl::be_removed(const view::View& view) {
  fence_everybody();
  close();
  tell_removed(view);
}

/// Calls the upcall `removed`, at most once. It is not called a second time if the upcall itself runs out of
/// memory.
void Membership::Impl::tell_removed(const view::View& view) {
  if (!std::exchange(is_removed_told_, true) && upcalls_.removed) upcalls_.removed(view);
}

/// Ends the membership after memory has run out. Ends the lease first, which needs no memory. The fence may
/// fail before it has destroyed all queue pairs. The remaining queue pairs are destroyed together with the
/// data path. The other members fence this process off, because it is silent from now on.
void Membership::Impl::end_without_memory() {
  closed_ = true;
  publish_lease();
  ++counters_.ended_without_memory;
  try {
    fence_everybody();
  } catch (const std::bad_alloc&) {
    window_.reset();
  }
  close();
  tell_removed(core_->view());
}

/// Handles a message that a member has sent for the application.
void Membership::Impl::take(Link& link, Data data) {
  if (core_->admits(data.epoch, *link.peer)) {
    ++counters_.delivered;
    if (upcalls_.delivered) upcalls_.delivered(*link.peer, data.bytes);
  } else if (data.epoch == view::next(core_->view().epoch) && link.early.size() < kMostEarly) {
    link.early.push_back(std::move(data));
  } else {
    ++counters_.fenced;
  }
}

std::optional<std::size_t> Membership::Impl::rank_of(view::MemberId id) const {
  const auto& members = core_->view().members;
  const auto found = std::ranges::find(members, id, &view::Member::id);
  if (found == members.end()) return std::nullopt;
  return static_cast<std::size_t>(found - members.begin());
}

/// Called when the exit of a process was seen. Usually only the end of its control loop thread was seen, and
/// its other threads may run for a few milliseconds more. Its lease ends only with the end of the whole
/// process.
void Membership::Impl::saw_death(view::MemberId id, ProcessIdentity process) {
  ++counters_.deaths_seen;
  const auto known = processes_.find(id);
  if (known != processes_.end()) known->second.died = boottime_now();
  process.thread = 0;
  // The exit of the whole process is awaited even if other members have already removed the process from the
  // view.
  if (known != processes_.end() && known->second.may_hold_lease)
    ending_[id] = watch_exit(loop_, peers_->identity().process, process, later([id](Impl& impl) {
                               impl.core_->on_exited(id, boottime_now());
                               impl.drive();
                             }));
  core_->on_gone(id, boottime_now());
  drive();
}

Result<void> Membership::Impl::broadcast(std::span<const std::byte> bytes) {
  if (!is_member() || closed_) return fail(Errc::cancelled, "this process is no member of the view");
  if (bytes.size() > kMostBytes) return fail(Errc::invalid_argument, "a message that is too long");
  const Message message = Data{core_->view().epoch, {bytes.begin(), bytes.end()}};
  for (auto& [id, link] : links_)
    if (link.peer && rank_of(*link.peer)) send(id, link, message);
  return {};
}

Result<void> Membership::Impl::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (!is_member() || closed_) return fail(Errc::cancelled, "this process is no member of the view");
  if (offset > options_.window_bytes || bytes.size() > options_.window_bytes - offset ||
      bytes.size() > kMostBytes)
    return fail(Errc::invalid_argument, "a write beyond the window");
  for (auto& [id, link] : links_)
    if (link.ready && link.connected && link.grant.epoch == core_->view().epoch)
      data_->write(id, link.grant.window, offset, {bytes.begin(), bytes.end()});
  return {};
}

Result<void> Membership::Impl::remove(view::MemberId member) {
  Result<void> removed = fail(Errc::invalid_argument, "this process is no member of the view");
  run([&] {
    removed = core_->remove(member, boottime_now());
    drive();
  });
  return removed;
}

void Membership::Impl::leave() {
  run([this] {
    core_->leave(boottime_now());
    drive();
  });
}

Counters Membership::Impl::counters() const {
  Counters counters = counters_;
  counters.packets_refused = data_->packets_refused();
  counters.dropped = data_->dropped();
  if (listener_) counters.refused = listener_->counters().refused;
  return counters;
}

Result<std::unique_ptr<Membership>> Membership::join(std::shared_ptr<peer::Peers> peers,
                                                     view::ViewStore& store, const MembershipOptions& options,
                                                     Upcalls upcalls) {
  const auto impl = std::make_shared<Impl>(std::move(peers), store, options, std::move(upcalls));
  auto membership = std::unique_ptr<Membership>(new Membership(impl));
  if (auto opened = impl->open(); !opened) return std::unexpected(opened.error());
  return membership;
}

Membership::~Membership() {
  impl_->loop().call([this] { impl_->close(); });
}

Result<void> Membership::broadcast(std::span<const std::byte> bytes) {
  return impl_->broadcast(bytes);
}
Result<void> Membership::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  return impl_->write(offset, bytes);
}
std::span<const std::byte> Membership::window() const {
  return impl_->data().window();
}
Result<void> Membership::remove(view::MemberId member) {
  return impl_->remove(member);
}
void Membership::leave() {
  impl_->leave();
}
bool Membership::holds_lease(Epoch epoch) const {
  return impl_->holds_lease(epoch);
}
const view::FailureView& Membership::view() const {
  return impl_->core();
}
Counters Membership::counters() const {
  return impl_->counters();
}
const std::string& Membership::fabric() const {
  return impl_->data().fabric_name();
}
const std::string& Membership::fabric_reason() const {
  return impl_->data().reason();
}

}  // namespace rdmc::membership
