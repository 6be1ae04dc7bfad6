// A channel to each other member of a view, for the messages of members about groups. Of two members, the
// younger one dials the older one. Only the control loop uses this class, and the owner must destroy it
// there.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "controlplane/peer/peers.hpp"
#include "lib/membership/messages.hpp"

namespace rdmc::member_groups {

class Channels {
 public:
  struct Handlers {
    /// Called when there is a new channel to the member. Messages that were sent on an earlier channel may
    /// have been lost.
    std::function<void(MemberId)> opened;
    std::function<void(MemberId, Message)> said;
    /// Called when the member asks to connect its node of that group with the node of this member.
    std::function<void(MemberId, GroupNumber, peer::Request)> offered;
    /// Called when the member is found to have no service for groups.
    std::function<void(MemberId)> absent;
  };

  Channels(std::shared_ptr<peer::Peers> peers, const std::string& group, Handlers handlers);
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  /// Allows other members to dial from now on. Errors: already_exists if this Context already takes part in
  /// the named group.
  Result<void> serve(MemberId self);
  /// Keeps channels to the other members of this view.
  void follow(const View& view);
  /// Sends a message. If there is no channel now, the message is lost, and opened() is called later.
  void send(MemberId member, const Message& message);
  /// Offers the blob of this member's node in the group to a member, if that member has dialed this process.
  /// `answered` gets the blob of the member's node. `answered` is not called if the member refuses, or if
  /// there is no channel to the member now. In the second case, opened() is called later.
  void offer(MemberId member, GroupNumber group, Bytes blob, std::function<void(const Bytes&)> answered);
  /// True if the member is known to have no service for groups, for example a program without this library.
  bool is_absent(MemberId member) const { return absent_.contains(member); }

 private:
  struct Dial {
    peer::Peers::Handle handle;
    control::Timer again;
    bool is_in_flight = false;
  };
  struct Link {
    std::uint64_t number = 0;
    control::Channel channel;
    std::optional<peer::Peer> dialer;  ///< the member's process, if it has dialed this process
  };

  void on_request(peer::Request request);
  void look();
  void dial(const Member& member, bool is_question);
  void on_dialed(MemberId member, bool is_question, Result<control::Channel> channel);
  void use(MemberId member, control::Channel channel, std::optional<peer::Peer> dialer = {});
  void lose(MemberId member);
  void on_message(MemberId member, const Bytes& bytes);
  void on_closed(MemberId member, std::uint64_t number);

  const std::shared_ptr<peer::Peers> peers_;
  const std::string service_;
  const Handlers handlers_;
  MemberId self_{};
  View view_;
  // As far as this process knows: `absent_` has the members without a service for groups, and `present_` has
  // those with one.
  std::set<MemberId> absent_, present_;
  std::uint64_t last_link_ = 0;
  std::map<MemberId, Link> links_;
  std::map<MemberId, Dial> dials_;
  peer::Peers::Handle serving_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();  // detects answers that come after the destruction
};

}  // namespace rdmc::member_groups
