// A channel to each other member of a view, for what members tell each other about groups. Of two members the
// younger dials the older. Everything is the loop's thread's; the owner destroys it there, too.
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
    /// There is a channel. What was sent on an earlier one may have been lost.
    std::function<void(MemberId)> opened;
    std::function<void(MemberId, Message)> said;
    /// It wants our node of that group to be connected with its own.
    std::function<void(MemberId, GroupNumber, peer::Request)> offered;
    /// It is found out that this member does not know groups.
    std::function<void(MemberId)> absent;
  };

  Channels(std::shared_ptr<peer::Peers> peers, const std::string& group, Handlers handlers);
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  /// Others may dial from here on. Errors: already_exists (this Context takes part in that group).
  Result<void> serve(MemberId self);
  /// Keeps channels to the other members of this view.
  void follow(const View& view);
  /// Lost when there is no channel now; opened() follows then.
  void send(MemberId member, const Message& message);
  /// Offers the member what its node of that group has to be connected with: only where it has dialed us.
  /// `answered` gets what the member's own needs; not at all if the member refuses, or if there is no channel
  /// to it now: opened() follows then.
  void offer(MemberId member, GroupNumber group, Bytes blob, std::function<void(const Bytes&)> answered);
  /// It is known not to take part: a program without this library, for instance.
  bool is_absent(MemberId member) const { return absent_.contains(member); }

 private:
  struct Dial {
    peer::Peers::Handle handle;
    control::Timer again;
    bool is_under_way = false;
  };
  struct Link {
    std::uint64_t number = 0;
    control::Channel channel;
    std::optional<peer::Peer> dialer;  ///< the member's process, if that has dialed us
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
  std::set<MemberId> absent_, present_;  // as far as it is known
  std::uint64_t last_link_ = 0;
  std::map<MemberId, Link> links_;
  std::map<MemberId, Dial> dials_;
  peer::Peers::Handle serving_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();  // for answers to offers
};

}  // namespace rdmc::member_groups
