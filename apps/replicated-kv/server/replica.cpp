#include "apps/replicated-kv/server/replica.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "apps/replicated-kv/server/member_list.hpp"
#include "dataplane/base/signal_masked_thread.hpp"

namespace rdmc::kv {

namespace {

constexpr Duration kLease = milliseconds(150);
/// The interval between attempts to join again.
constexpr Milliseconds kJoinAgain = 100;
constexpr GroupNumber kStateNumber{1};
/// The time for which the views cannot change until the server says so. Servers that start together need
/// some time to find each other.
constexpr Milliseconds kViewsLostFor = 5000;
/// A server that does not answer requests after the first time says why, and then in this interval. Several
/// hosts that begin a service again need about 8 s.
constexpr Milliseconds kBeginsLateAfter = 12'000, kBeginsLateAgain = 60'000;
/// The number of changes that one call of work() takes at most, so that clients are not kept waiting.
constexpr int kMostChanges = 1000;

}  // namespace

Replica::~Replica() {
  if (stop_asking_) ::eventfd_write(stop_asking_.get(), 1);
  if (asking_.joinable()) asking_.join();
  senders_.stop();
  state_.reset();
  membership_.reset();
}

void Replica::wake() const {
  ::eventfd_write(wake_.get(), 1);
}

Result<void> Replica::start() {
  wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return fail_errno("eventfd", errno);
  stop_asking_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_asking_) return fail_errno("eventfd", errno);
  return start_asking(checked_, [this] { return check_members(options_, stop_asking_.get()); });
}

/// Calls `ask` in a thread, and wakes the loop when `result` has what it returned. Errors: resource_limit if
/// there is no thread.
template <typename Asked, typename Ask>
Result<void> Replica::start_asking(std::future<Asked>& result, Ask ask) {
  if (asking_.joinable()) asking_.join();
  std::promise<Asked> asked;
  auto future = asked.get_future();
  auto thread = start_signal_masked_thread("that asks the other servers",
                                           [this, ask, asked = std::move(asked)]() mutable {
                                             asked.set_value(ask());
                                             wake();
                                           });
  if (!thread) return std::unexpected(thread.error());
  asking_ = std::move(*thread);
  result = std::move(future);
  return {};
}

/// Returns the addresses for clients of the servers that run the store of views. These are one or three.
std::vector<Address> Replica::store_nodes() const {
  const auto begin = options_.members.begin();
  return {begin, begin + (options_.members.size() < 3 ? 1 : 3)};
}

Result<void> Replica::join(Moment now) {
  if (log_ != nullptr) {
    if (auto restored = log_->restore(); !restored) return restored;
    log_->flush();
    if (!log_->is_written()) return fail(Errc::would_block, "the disk does not have the state yet");
  }
  MembershipOptions options;
  options.group = "rdmc_kv " + to_string(options_.members.front());
  options.name = to_string(options_.listen);
  options.address = options_.listen;
  options.address.port = 0;
  options.store.nodes = store_nodes();
  for (Address& node : options.store.nodes)
    node.port = static_cast<std::uint16_t>(node.port + kControlPortOffset);
  if (options_.self < options.store.nodes.size()) options.store.runs = options_.self;
  if (log_ != nullptr) options.store.directory = options_.directory + "/" + kViewsName;
  options.key_file = options_.identity.key_file;
  const control::CertificateFiles& files = options_.identity.certificates;
  options.certificates = {files.certificate, files.private_key, files.authority};
  options.insecure = options_.identity.insecure;
  if (!options_.fabric.empty()) options.fabric = options_.fabric;
  options.lease = kLease;
  MembershipCallbacks on;
  on.installed = [this](const View& view) {
    {
      const std::lock_guard lock(mutex_);
      view_ = view;
      has_new_view_ = true;
    }
    wake();
  };
  on.removed = [this](const View&) {
    {
      const std::lock_guard lock(mutex_);
      is_removed_ = true;
    }
    wake();
  };
  // The only message says that its sender is being stopped.
  on.delivered = [this](MemberId from, std::span<const std::byte>) {
    const std::lock_guard lock(mutex_);
    leaving_.push_back(from);
  };
  const auto complain = [this](std::string what) {
    {
      const std::lock_guard lock(mutex_);
      lost_.push_back(std::move(what));
    }
    wake();
  };
  // A bad link that does not end is the reason why requests wait, so people must learn of it.
  const auto tell_link = [this](MemberId id, LogLevel level, const std::string& what) {
    {
      const std::lock_guard lock(mutex_);
      const Member* const member = view_.find(id);
      if (member != nullptr) told_links_.emplace_back(level, "the server " + member->name + what);
    }
    wake();
  };
  on.unreachable = [tell_link](const UnreachableMember& lost) {
    tell_link(lost.member, LogLevel::warning,
              !lost.is_heard ? " does not answer this server" : " does not get what this server sends to it");
  };
  on.reachable = [tell_link](MemberId id) { tell_link(id, LogLevel::info, " answers this server again"); };
  const auto tell_views_lost = [this](std::string why) {
    {
      const std::lock_guard lock(mutex_);
      views_lost_ = std::move(why);
    }
    wake();
  };
  on.store_lost = [tell_views_lost](const Error& cause) { tell_views_lost(cause.what); };
  on.store_found = [tell_views_lost] { tell_views_lost({}); };
  on.store_node_ended = [complain](const Error& cause) {
    complain("this server keeps no views any more: " + cause.what);
  };
  on.refused = [complain](const Address& process, const Error& cause) {
    complain("refused " + to_string(process) + ": " + cause.what);
  };
  {
    const std::lock_guard lock(mutex_);
    is_removed_ = false;
    views_lost_.clear();
  }
  auto membership = Membership::join(options, std::move(on));
  if (!membership) return std::unexpected(membership.error());
  ReplicatedStateOptions state_options;
  state_options.number = kStateNumber;
  state_options.first_replicas = options_.members.size();
  state_options.least_replicas = options_.least_replicas;
  state_options.on_change = [this] { wake(); };
  if (log_ != nullptr) {
    state_options.stored = log_->place();
    state_options.awaits_disk = options_.syncs == Syncs::always;
  }
  auto state = ReplicatedState::open(**membership, state_options);
  if (!state) return std::unexpected(state.error());
  membership_ = std::move(*membership);
  state_ = std::move(*state);
  told_persisted_ = 0;
  service_.begin(*this, static_cast<std::uint64_t>(membership_->id()));
  service_.on_status({}, now);
  return {};
}

void Replica::leave(const std::string& why, Moment now) {
  // Servers that start together may begin before the last of them is connected. It is removed then.
  if (service_.status().is_complete)
    warn("this server does not take part any more, and joins again: " + why);
  else
    news_.emplace_back(LogLevel::info,
                       "this server did not have the data yet when the others went on without it. It "
                       "joins them now: " +
                           why);
  // With a log, the server says to the others that it has this state (join()).
  service_.end(now, log_ != nullptr ? Service::AtEnd::keep_state : Service::AtEnd::drop_state);
  senders_.stop();
  state_.reset();
  membership_.reset();
  told_members_.clear();
  told_main_ = {};
  join_again_ = now.steady + kJoinAgain;
}

void Replica::begin_to_leave() {
  is_leaving_ = true;
  if (!membership_) {
    has_left_ = true;
    return;
  }
  // This is only for the logs of the others, so it may be lost.
  static_cast<void>(membership_->broadcast(std::array{std::byte{1}}));
  membership_->leave();
}

Result<void> Replica::work(Moment now) {
  eventfd_t ignored;
  ::eventfd_read(wake_.get(), &ignored);
  {
    const std::lock_guard lock(mutex_);
    for (std::string& what : lost_) warn(std::move(what));
    lost_.clear();
    std::ranges::move(told_links_, std::back_inserter(news_));
    told_links_.clear();
    has_left_ = has_left_ || (is_leaving_ && is_removed_);
  }
  if (is_leaving_ && !state_) has_left_ = true;
  if (has_left_) return {};
  look_at_views(now);
  if (checked_.valid()) {
    if (checked_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return {};
    if (auto same = checked_.get(); !same) return same;
    if (auto joined = join(now); !joined) return joined;
  }
  look_at_beginning(now);
  if (state_)
    take_changes(now);
  else if (now.steady >= join_again_)
    join_again(now);
  return {};
}

/// Says in the log why this server does not answer requests, if it has not begun to. A thread finds out
/// which servers are missing.
void Replica::look_at_beginning(Moment now) {
  if (is_leaving_ || service_.has_begun() || service_.is_loading()) return;
  if (silent_.valid()) {
    if (silent_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
      warn("this server does not answer requests yet: " + reason_to_wait(silent_.get()));
    return;
  }
  if (says_late_at_ == 0) says_late_at_ = now.steady + kBeginsLateAfter;
  if (now.steady < says_late_at_) return;
  says_late_at_ = now.steady + kBeginsLateAgain;
  // Without a thread, it asks the next time.
  static_cast<void>(
      start_asking(silent_, [this] { return find_silent_members(options_, stop_asking_.get()); }));
}

std::string Replica::reason_to_wait(const std::vector<Address>& silent) {
  std::string why;
  {
    const std::lock_guard lock(mutex_);
    why = views_lost_;
  }
  std::string text;
  if (!silent.empty()) text = "these servers cannot be asked: " + to_string(silent);
  if (!why.empty())
    return text + (text.empty() ? "" : "; ") + "it does not get the view from the servers that keep it, " +
           to_string(store_nodes()) + ", on their port numbers plus " + std::to_string(kControlPortOffset) +
           ": " + why +
           ". If most of these servers were started again without --dir, restart no other one: the guide "
           "says how to name the server that has the data (rdmc_control survivor)";
  if (!text.empty()) return text;
  if (!service_.status().is_complete) return "it has not got the data yet";
  return "the service waits for more servers with all data, or until earlier processes of the servers can do "
         "nothing any more";
}

void Replica::look_at_views(Moment now) {
  std::string why;
  {
    const std::lock_guard lock(mutex_);
    why = views_lost_;
  }
  service_.on_views(why.empty());
  if (why.empty()) {
    views_lost_at_ = 0;
    if (std::exchange(has_complained_of_views_, false))
      news_.emplace_back(LogLevel::info, "this server reaches the servers that keep the view again");
    return;
  }
  if (views_lost_at_ == 0) views_lost_at_ = now.steady;
  if (is_leaving_ || has_complained_of_views_ || now.steady - views_lost_at_ < kViewsLostFor) return;
  if (!service_.has_begun()) return;  // look_at_beginning() says so.
  has_complained_of_views_ = true;
  warn("this server does not reach a majority of the servers that keep the view (" +
       to_string(store_nodes()) + "), so no server can join or be left out: " + why);
}

void Replica::join_again(Moment now) {
  join_again_ = now.steady + kJoinAgain;
  const auto joined = join(now);
  if (joined) return;
  if (last_failure_ != joined.error().what) warn("cannot join: " + joined.error().what);
  last_failure_ = joined.error().what;
}

void Replica::take_changes(Moment now) {
  update_info();
  if (log_ != nullptr && log_->is_refused()) return leave(*log_->failure(), now);
  for (const std::string& failure : senders_.take_failures())
    warn("the data could not be sent to another server. It is sent again: " + failure);
  for (int i = 0; i < kMostChanges; ++i) {
    auto change = state_->take();
    if (!change) return;
    if (const auto* const event = std::get_if<OrderedEvent>(&*change)) {
      service_.on_event(*event);
      if (log_ != nullptr) log_->append(*event);
    } else if (const auto* const stable = std::get_if<StableEvents>(&*change)) {
      service_.on_stable(stable->position);
    } else if (const auto* const status = std::get_if<ReplicaStatus>(&*change)) {
      service_.on_status(*status, now);
      update_info();
    } else if (auto* const save = std::get_if<SaveState>(&*change)) {
      send_state(save->to);
    } else if (const auto* const load = std::get_if<LoadState>(&*change)) {
      on_load(*load, now);
    } else {
      if (is_leaving_) return;
      leave(std::get<StateEnded>(*change).cause.what, now);
    }
    if (!state_) return;
  }
  wake();
}

void Replica::send_state(StateWriter& to) {
  const auto begun = senders_.begin(to, [this](const auto& write) { service_.save(write, true); });
  if (begun) return;
  warn("requests wait while this server writes out its data for another server: " + begun.error().what);
  service_.save([&](std::vector<std::byte> piece) { to.write(std::move(piece)); }, true);
  to.finish();
}

void Replica::on_load(const LoadState& load, Moment now) {
  if (log_ != nullptr && load.step == LoadState::Step::begin) {
    log_->load_begins();
    told_persisted_ = 0;
  }
  if (!service_.on_load(load)) return leave("the state of another server was wrong", now);
  if (log_ != nullptr && load.step == LoadState::Step::end)
    log_->load_ended({.epoch = load.epoch, .position = load.position, .time = load.time}, now.steady);
}

void Replica::tell_persisted() {
  if (log_ == nullptr || !state_ || log_->persisted() <= told_persisted_) return;
  told_persisted_ = log_->persisted();
  state_->persisted(told_persisted_);
}

void Replica::tell_of_members(const View& view) {
  const auto is_in = [](const std::vector<Member>& members, const Member& one) {
    return std::ranges::find(members, one.id, &Member::id) != members.end();
  };
  for (const Member& member : view.members) {
    if (is_in(told_members_, member)) continue;
    const bool is_self = membership_ && member.id == membership_->id();
    news_.emplace_back(LogLevel::info,
                       (is_self ? "this server" : "the server " + member.name) + " takes part now");
  }
  for (const Member& member : told_members_)
    if (!is_in(view.members, member))
      news_.emplace_back(
          LogLevel::info,
          "the server " + member.name + " does not take part any more: " +
              (std::ranges::find(leaving_, member.id) != leaving_.end() ? "it was stopped"
               : service_.has_begun()
                   ? "it has died, or did not answer"
                   // Servers that start together, on a busy machine, may go on before the last one can.
                   : "it was not ready in time, or has died. It joins by itself if it still runs"));
  std::erase_if(leaving_, [&](MemberId id) { return view.find(id) == nullptr; });
  told_members_ = view.members;
}

void Replica::update_info() {
  const std::lock_guard lock(mutex_);
  const MemberId main_id = service_.status().main;
  if (!has_new_view_ && main_id == shown_main_) return;
  shown_main_ = main_id;
  ServiceInfo info;
  info.port = options_.listen.port;
  info.view_epoch = value_of(view_.epoch);
  info.pid = static_cast<std::uint64_t>(::getpid());
  for (const Member& member : view_.members) {
    // The name of a member is its client address.
    const auto address = parse_address(member.name, 0);
    if (!address) continue;
    const ServiceInfo::Server server{host_string(*address), address->port};
    if (member.id == main_id) info.main = server;
    if (membership_ && member.id != membership_->id()) info.others.push_back(server);
  }
  service_.set_info(info);
  const Member* const main = view_.find(main_id);
  if (main != nullptr && std::exchange(told_main_, main_id) != main_id &&
      !(membership_ && main_id == membership_->id()))
    news_.emplace_back(LogLevel::info, "the main is " + main->name);
  if (!std::exchange(has_new_view_, false)) return;
  tell_of_members(view_);
  std::vector<std::uint64_t> servers;
  for (const Member& member : view_.members) servers.push_back(static_cast<std::uint64_t>(member.id));
  service_.on_servers(servers);
}

}  // namespace rdmc::kv
