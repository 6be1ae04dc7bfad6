#include "lib/membership/channels.hpp"

#include <algorithm>

namespace rdmc::member_groups {
namespace {

constexpr Duration kDialWithin = seconds(5);
constexpr Duration kDialAgain = milliseconds(100);

}  // namespace

Channels::Channels(std::shared_ptr<peer::Peers> peers, const std::string& group, Handlers handlers)
    : peers_(std::move(peers)), service_("groups of " + group), handlers_(std::move(handlers)) {}

Result<void> Channels::serve(MemberId self) {
  self_ = self;
  auto serving = peers_->serve(service_, [this](peer::Request request) { on_request(std::move(request)); });
  if (!serving) return std::unexpected(serving.error());
  serving_ = std::move(*serving);
  return {};
}

void Channels::follow(const View& view) {
  for (const Member& former : view_.members) {
    if (view.find(former.id) != nullptr) continue;
    links_.erase(former.id);
    dials_.erase(former.id);
    absent_.erase(former.id);
    present_.erase(former.id);
  }
  view_ = view;
  look();
}

void Channels::send(MemberId member, const Message& message) {
  const auto found = links_.find(member);
  if (found == links_.end()) return;
  // A message that is lost on a channel is noticed by the end of the channel.
  if (!found->second.channel.send(encode(message))) lose(member);
}

void Channels::offer(MemberId member, GroupNumber group, Bytes blob,
                     std::function<void(const Bytes&)> answered) {
  const auto found = links_.find(member);
  if (found == links_.end() || !found->second.dialer) return;
  const Greeting greeting{.from = self_, .to = member, .purpose = Purpose::node, .group = group};
  found->second.dialer->open(service_, {encode_greeting(greeting), std::move(blob)},
                             [this, alive = std::weak_ptr(alive_), member, answered = std::move(answered)](
                                 Result<control::Channel> channel, const peer::Offer& theirs) {
                               if (alive.expired()) return;
                               if (channel) {
                                 channel->close();
                                 answered(theirs.blob);
                               } else if (channel.error().code == Errc::resource_limit) {
                                 lose(member);  // opened() of the next channel leads to a new offer
                               }
                             });
}

/// A member that has joined in a view that is not installed here yet may open a channel before that view is
/// installed.
void Channels::on_request(peer::Request request) {
  const auto greeting = decode_greeting(request.offer().greeting);
  if (!greeting) return request.refuse(greeting.error());
  if (greeting->to != self_) return request.refuse({Errc::peer_failed, "another process is here now"});
  if (greeting->purpose == Purpose::question)
    return request.refuse({Errc::already_exists, "this member knows groups"});
  const bool is_known = links_.contains(greeting->from);
  if (greeting->purpose == Purpose::node) {
    if (is_known) return handlers_.offered(greeting->from, greeting->group, std::move(request));
    return request.refuse({Errc::cancelled, "a node of a member that is not known here"});
  }
  if (!is_known && links_.size() >= 2 * kMostMembers)
    return request.refuse({Errc::resource_limit, "too many processes"});
  const peer::Peer dialer = request.peer();
  if (auto channel = request.accept({})) use(greeting->from, std::move(*channel), dialer);
}

/// Dials the members to which a channel is needed. A coordinator also asks the younger members that have not
/// dialed it yet if they have the service, because it waits only for members that have it.
void Channels::look() {
  bool coordinates = true, is_older = true;
  for (const Member& member : view_.members) {
    if (member.id == self_) {
      is_older = false;
      continue;
    }
    if (is_older && !absent_.contains(member.id)) coordinates = false;
    const bool is_known = links_.contains(member.id) || absent_.contains(member.id) ||
                          (!is_older && (!coordinates || present_.contains(member.id)));
    if (!is_known && !dials_[member.id].is_in_flight) dial(member, !is_older);
  }
}

void Channels::dial(const Member& member, bool is_question) {
  Dial& dial = dials_[member.id] = {};
  dial.is_in_flight = true;
  const Greeting greeting{
      .from = self_, .to = member.id, .purpose = is_question ? Purpose::question : Purpose::messages};
  dial.handle =
      peers_->open(host_string(member.address), member.address.port, kDialWithin, service_,
                   {encode_greeting(greeting), {}},
                   [this, id = member.id, is_question](Result<control::Channel> channel, const peer::Offer&) {
                     on_dialed(id, is_question, std::move(channel));
                   });
}

void Channels::on_dialed(MemberId member, bool is_question, Result<control::Channel> channel) {
  if (channel) {
    dials_[member].is_in_flight = false;
    return use(member, std::move(*channel));
  }
  if (channel.error().code == Errc::not_found) {
    dials_[member].is_in_flight = false;
    absent_.insert(member);
    look();
    return handlers_.absent(member);
  }
  if (is_question && channel.error().code == Errc::already_exists) {
    dials_[member].is_in_flight = false;
    present_.insert(member);
    return;
  }
  dials_[member].again = peers_->loop().after(kDialAgain, [this, member] {
    dials_[member].is_in_flight = false;
    look();
  });
}

void Channels::use(MemberId member, control::Channel channel, std::optional<peer::Peer> dialer) {
  links_.erase(member);
  Link& link =
      links_.emplace(member, Link{++last_link_, std::move(channel), std::move(dialer)}).first->second;
  link.channel.start([this, member](const Bytes& bytes) { on_message(member, bytes); },
                     [this, member, number = link.number](const Error&) { on_closed(member, number); });
  handlers_.opened(member);
}

void Channels::on_message(MemberId member, const Bytes& bytes) {
  auto message = decode(bytes);
  if (message) return handlers_.said(member, std::move(*message));
  lose(member);
}

void Channels::on_closed(MemberId member, std::uint64_t number) {
  const auto found = links_.find(member);
  if (found != links_.end() && found->second.number == number) lose(member);
}

void Channels::lose(MemberId member) {
  links_.erase(member);
  look();
}

}  // namespace rdmc::member_groups
