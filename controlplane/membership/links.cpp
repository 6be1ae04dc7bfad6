// The links of a membership. This file decides which process dials which other process, sends messages over
// the control connection until the data path can be used, and interprets the end of a control connection or
// of a queue pair.
#include <algorithm>
#include <ranges>

#include "controlplane/membership/membership_impl.hpp"
#include "dataplane/base/clock.hpp"

namespace rdmc::membership {
namespace {

constexpr Duration kDialWithin = seconds(2);
constexpr Duration kRememberDead = seconds(10);

}  // namespace

Membership::Impl::Link* Membership::Impl::find(LinkId id) {
  const auto found = links_.find(id);
  return found == links_.end() ? nullptr : &found->second;
}

/// Sends the message to every process with the address `to`. There can be several such processes, on
/// different network stacks.
void Membership::Impl::say(const Address& to, const view::Transmit& words) {
  bool said = false;
  for (auto& [id, link] : links_) {
    if (!link.peer || link.address != to) continue;
    send(id, link, Words{words.message}, words.way);
    said = true;
  }
  if (said || !is_ours_to_dial(to)) return;
  dial(to);
  if (is_dialing(to)) unsaid_[to] = words.message;
}

/// True if the address is being dialed, or if it was dialed and the process there has not sent a greeting
/// yet. In this state the address is not dialed again, because a busy peer needs time, and another connection
/// would delay it more.
bool Membership::Impl::is_dialing(const Address& address) const {
  return dialing_.contains(address) || std::ranges::any_of(links_, [&](const auto& entry) {
           const Link& link = entry.second;
           return link.dialed && !link.peer && link.address == address;
         });
}

/// Sends the message. Uses the data path if both ends of the data path are connected and the message is not
/// too long for it.
void Membership::Impl::send(LinkId id, Link& link, const Message& message, view::Way way) {
  Bytes bytes = encode(message);
  const bool is_trusted = options_.encrypt || way == view::Way::data_path;
  const bool has_path = link.connected && link.ready && bytes.size() <= DataPath::kMostBytes;
  if (has_path && (is_trusted || way == view::Way::both)) data_->say(id, bytes);
  // The channel may refuse the message. The message is then sent again later, or the channel has ended and
  // the message is useless.
  if (!has_path || !is_trusted) static_cast<void>(link.channel->send(std::move(bytes)));
}

/// True if this process, and not the process at `address`, dials. Of two members, the younger member dials. A
/// process that is no member dials every process that it wants to reach.
bool Membership::Impl::is_ours_to_dial(const Address& address) const {
  if (!is_member()) return true;
  const auto& members = core_->view().members;
  const auto other = std::ranges::find(members, address, &view::Member::address);
  const auto self = std::ranges::find(members, core_->self().id, &view::Member::id);
  return other != members.end() && other < self;
}

void Membership::Impl::dial(const Address& address) {
  forget_put_off();
  if (is_dialing(address) || put_off_.contains(address)) return;
  dialing_[address] = peers_->dial(host_string(address), address.port, kDialWithin,
                                   later([address](Impl& impl, Result<peer::Peer> process) {
                                     const auto done = impl.dialing_.extract(address);
                                     if (process) return impl.open_link(std::move(*process), address);
                                     impl.unsaid_.erase(address);
                                     if (process.error().code == Errc::peer_failed)
                                       impl.dial_refused(address);
                                   }));
}

/// Called when a dial was refused. A firewall refuses connections, and a host on which no process listens at
/// the address refuses them too. A process that had no connection to the address cannot distinguish these two
/// cases.
void Membership::Impl::dial_refused(const Address& address) {
  const auto& members = core_->view().members;
  const auto member = std::ranges::find(members, address, &view::Member::address);
  if (member == members.end() || has_link(member->id)) return;
  core_->on_refused(member->id, false, boottime_now());
  drive();
}

/// Finds out whether `peer` is dead. This process had a connection to `peer` until now.
void Membership::Impl::probe(const Address& address, view::MemberId peer, int again) {
  probes_[address] = probe_listener(loop_, address, later([address, peer, again](Impl& impl, bool refused) {
                                      const auto done = impl.probes_.extract(address);
                                      if (refused && !impl.has_link(peer)) {
                                        ++impl.counters_.deaths_seen;
                                        impl.core_->on_refused(peer, true, boottime_now());
                                        return impl.drive();
                                      }
                                      if (again > 0 && !impl.has_link(peer))
                                        impl.probe_later(address, peer, kProbeAgain, again - 1);
                                    }));
}

void Membership::Impl::probe_later(const Address& address, view::MemberId peer, Duration delay, int again) {
  probe_again_[address] = loop_.after(delay, later([address, peer, again](Impl& impl) {
                                        impl.probe_again_.erase(address);
                                        if (!impl.has_died(peer) && impl.core_->view().contains(peer))
                                          impl.probe(address, peer, again);
                                      }));
}

/// Dials the address to find out which process listens there now. An existing connection does not show this:
/// it only shows which process listened when the connection began.
void Membership::Impl::ask_listener(const view::AskListener& asked) {
  asking_[asked.address] = peers_->dial(host_string(asked.address), asked.address.port, kDialWithin,
                                        later([asked](Impl& impl, Result<peer::Peer> process) {
                                          const auto done = impl.asking_.extract(asked.address);
                                          const auto listener =
                                              process ? impl.who_is(*process) : std::nullopt;
                                          impl.core_->on_listener(asked.request, listener, boottime_now());
                                          impl.drive();
                                        }));
}

/// Returns the member or joiner that was dialed. A process that gives the incarnation of a member counts as
/// that member, because this answer removes no member. The incarnation is not enough to identify any other
/// process, because a process can claim any incarnation. Any other process counts as the peer of a link only
/// if the dial led to the connection that carries this link.
std::optional<view::MemberId> Membership::Impl::who_is(const peer::Peer& process) const {
  for (const view::Member& member : core_->view().members)
    if (const auto known = processes_.find(member.id);
        known != processes_.end() && known->second.identity.incarnation == process.identity().incarnation)
      return member.id;
  // If one connection carries links of several lives of a process, the newest link counts.
  for (const auto& [id, link] : std::views::reverse(links_))
    if (link.peer && link.connection == process.number()) return link.peer;
  return std::nullopt;
}

bool Membership::Impl::has_link(view::MemberId peer) const {
  return std::ranges::any_of(links_, [&](const auto& entry) { return entry.second.peer == peer; });
}

/// Adds a link. If there are kMostLinks already, first drops the oldest link whose process is no member.
Membership::Impl::Link& Membership::Impl::add_link(bool dialed, const Address& address) {
  if (links_.size() >= kMostLinks)
    drop(std::ranges::find_if(links_, [&](const auto& entry) {
           return !entry.second.peer || !rank_of(*entry.second.peer);
         })->first);
  Link& link = links_[LinkId{++last_link_}];
  link.dialed = dialed;
  link.address = address;
  return link;
}

/// Called when this process has dialed `process`. Opens a channel and makes a queue pair.
void Membership::Impl::open_link(peer::Peer process, const Address& address) {
  Link& link = add_link(true, address);
  link.connection = process.number();
  const LinkId id{last_link_};
  auto blob = data_->offer(id);
  if (!blob) return drop(id);
  link.greeting_due =
      loop_.after(peers_->options().handshake_deadline, later([id](Impl& impl) { impl.drop(id); }));
  process.open("membership/" + options_.group, {encode(greeting()), std::move(*blob)},
               later([id, address, from = process.identity()](Impl& impl, Result<control::Channel> channel,
                                                              const peer::Offer& offer) {
                 Link* const opened = impl.find(id);
                 if (opened == nullptr) return;
                 if (!channel && channel.error().code == Errc::not_found)
                   return impl.mismatched(id, address, {Errc::not_found, "takes part in another group"});
                 const auto theirs = decode_greeting(offer.greeting);
                 if (!channel || !theirs || theirs->address != address) return impl.drop(id);
                 impl.use(id, *opened, std::move(*channel));
                 impl.greeted(id, *opened, *theirs, from, offer.blob);
               }));
}

/// Called when another process has dialed this process and asks for a channel.
void Membership::Impl::on_request(peer::Request request) {
  const auto theirs = decode_greeting(request.offer().greeting);
  if (!theirs) return request.refuse(theirs.error());
  if (is_redundant(theirs->id, false))
    return request.refuse({Errc::already_exists, "there is a link already"});
  Link& link = add_link(false, theirs->address);
  link.connection = request.peer().number();
  const LinkId id{last_link_};
  const auto blob = std::move(request.offer().blob);
  const peer::Identity from = request.identity();
  auto ours = data_->offer(id);
  if (!ours) {
    request.refuse(ours.error());
    return drop(id);
  }
  auto channel = request.accept({encode(greeting()), std::move(*ours)});
  if (!channel) return drop(id);
  use(id, link, std::move(*channel));
  greeted(id, link, *theirs, from, blob);
}

void Membership::Impl::use(LinkId id, Link& link, control::Channel channel) {
  link.channel.emplace(std::move(channel));
  link.channel->start(later([id](Impl& impl, const Bytes& message) { impl.hear(id, message, true); }),
                      later([id](Impl& impl, const Error& cause) { impl.channel_closed(id, cause); }));
}

/// Called when a second link to `peer` appears. Decides which of the two links stays. Returns true if the new
/// link must be dropped. Otherwise drops the old link and returns false. If the two processes have dialed
/// each other, the link that the process with the greater id has dialed stays. The peer decides in the same
/// way. If one process has dialed both links, the older link is dead, and this process had not noticed that.
bool Membership::Impl::is_redundant(view::MemberId peer, bool dialed) {
  if (peer == core_->self().id) return true;
  const auto other =
      std::ranges::find(links_, std::optional(peer), [](const auto& entry) { return entry.second.peer; });
  if (other == links_.end()) return false;
  const bool crossing = other->second.dialed != dialed;
  if (crossing && dialed != (core_->self().id > peer)) return true;
  drop(other->first);
  return false;
}

/// Handles a message from the channel or the data path. The failure view itself ignores information that an
/// unauthenticated message must not contain.
void Membership::Impl::hear(LinkId id, std::span<const std::byte> bytes, bool is_authenticated) {
  Link* const link = find(id);
  if (link == nullptr) return;
  auto message = decode(bytes);
  if (!message || bytes.size() > kMostMessageBytes) return drop(id);
  if (!link->peer) return drop(id);
  if (const auto* const words = std::get_if<Words>(&*message)) {
    const auto taken =
        core_->on_message(words->bytes, {*link->peer, link->address, is_authenticated}, boottime_now());
    if (!taken) drop(id);
    drive();
  } else if (const auto* const grant = std::get_if<WindowGrant>(&*message)) {
    if (grant->epoch > link->grant.epoch) link->grant = *grant;
  } else if (auto* const data = std::get_if<Data>(&*message)) {
    if (data->bytes.size() > kMostBytes) return drop(id);
    take(*link, std::move(*data));
  } else {
    link->ready = true;
    became_ready(id, *link);
  }
}

void Membership::Impl::greeted(LinkId id, Link& link, const Greeting& greeting, const peer::Identity& from,
                               std::span<const std::byte> blob) {
  if (link.dialed && is_redundant(greeting.id, true)) return drop(id);
  link.greeting_due = {};
  link.peer = greeting.id;
  link.address = greeting.address;
  const auto connected = data_->connect(id, blob);
  if (!connected) return mismatched(id, greeting.address, connected.error());
  link.connected = true;
  link.member = rank_of(greeting.id).has_value();
  ++counters_.connected;
  static_cast<void>(link.channel->send(encode(Ready{})));
  processes_[greeting.id].identity = from;
  tend_watches();
  if (const auto words = unsaid_.extract(link.address); !words.empty()) send(id, link, Words{words.mapped()});
}

void Membership::Impl::mismatched(LinkId id, const Address& address, const Error& cause) {
  if (Link* const link = find(id); link && link->channel) link->channel->close();
  drop(id);
  ++counters_.mismatched;
  forget_put_off();
  put_off_[address] = monotonic_now() + kMismatchedAgain;
  if (upcalls_.refused) upcalls_.refused(address, cause);
}

/// Called when the peer's queue pair is connected, and called for each peer after an epoch has begun. If the
/// peer is a member, sends it a window grant.
void Membership::Impl::became_ready(LinkId id, Link& link) {
  if (window_ && is_member() && rank_of(*link.peer))
    send(id, link, WindowGrant{core_->view().epoch, *window_});
}

void Membership::Impl::grant_windows() {
  for (auto& [id, link] : links_)
    if (link.peer && link.ready) became_ready(id, link);
}

void Membership::Impl::channel_closed(LinkId id, const Error& cause) {
  const Link* const link = find(id);
  if (link == nullptr) return;
  const auto peer = link->peer;
  const Address address = link->address;
  drop(id);
  // A process that dies sends no goodbye. If the process has sent a goodbye, the cause is not peer_failed,
  // and the process is not dead.
  if (!peer || cause.code != Errc::peer_failed || has_died(*peer)) return;
  watch(*peer) ? probe_later(address, *peer, kExitSeenWithin, kProbes) : probe(address, *peer);
}

bool Membership::Impl::is_to_be_watched(view::MemberId peer) const {
  const view::MemberId self = core_->self().id;
  std::size_t on_this_host = 0;
  for (const view::Member& member : core_->view().members) {
    if (member.host != core_->self().host) continue;
    if (on_this_host++ == kWatchers) return false;
    if (member.id == self || member.id == peer) return true;
  }
  return false;
}

/// Watches for the exit of `peer`. Returns false if this process would not see that exit.
bool Membership::Impl::watch(view::MemberId peer) {
  const auto known = processes_.find(peer);
  if (known == processes_.end()) return false;
  auto& exit = known->second.exit;
  const ProcessIdentity& process = known->second.identity.process;
  if (!exit)
    exit = watch_exit(loop_, peers_->identity().process, process,
                      later([peer, process](Impl& impl) { impl.saw_death(peer, process); }));
  return exit != nullptr;
}

bool Membership::Impl::has_died(view::MemberId peer) const {
  const auto known = processes_.find(peer);
  return known != processes_.end() && known->second.died;
}

/// Called after a new view or a new link. Begins and ends the watches for process exits. A process whose
/// connection has ended is still watched. A process that has died is remembered for some time, because a view
/// that was proposed before its death may still contain it.
void Membership::Impl::tend_watches() {
  std::erase_if(processes_, [&](const auto& entry) {
    const auto& [id, process] = entry;
    return !core_->view().contains(id) && !has_link(id) &&
           (!process.died || boottime_now() - *process.died > kRememberDead);
  });
  for (auto& [id, process] : processes_) {
    const view::Member* const member = core_->view().find(id);
    process.may_hold_lease |= member != nullptr && member->lease > Duration{};
    if (!process.died && is_to_be_watched(id))
      watch(id);
    else if (process.died || has_link(id))
      process.exit.reset();
  }
}

void Membership::Impl::path_failed(LinkId id) {
  const Link* const link = find(id);
  if (link == nullptr) return;
  ++counters_.paths_failed;
  const auto peer = link->peer;
  drop(id);
  if (!peer) return;
  // The channel of the link was dropped as well, so the end of that channel will not be reported.
  if (!has_died(*peer)) watch(*peer);
  lost_paths_[*peer] =
      loop_.after(kReconnectWithin, later([peer = *peer](Impl& impl) {
                    impl.lost_paths_.erase(peer);
                    // This process may have been stopped meanwhile. Then the peer may be connecting right
                    // now, so this process first handles what has arrived.
                    impl.when_heard([peer](Impl& self) {
                      if (self.has_link(peer)) return;
                      self.core_->on_path_failed(peer, self.core_->view().epoch, boottime_now());
                      self.drive();
                    });
                  }));
}

void Membership::Impl::drop(LinkId id) {
  data_->close(id);
  const auto link = links_.extract(id);
  if (!link.empty() && link.mapped().dialed && !link.mapped().peer) unsaid_.erase(link.mapped().address);
}

/// Removes the addresses that may be dialed again now. Otherwise these entries would accumulate, because new
/// processes can appear and end while the view stays the same.
void Membership::Impl::forget_put_off() {
  std::erase_if(put_off_, [now = monotonic_now()](const auto& entry) { return entry.second <= now; });
}

}  // namespace rdmc::membership
