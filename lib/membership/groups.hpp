// The groups of one membership at one member. This class passes the messages of other members to the groups
// that the application has made here, and reports the states of these groups to the coordinator. The oldest
// member of the view is the coordinator; it begins the epochs of all groups. Only the control loop uses this
// class, and the owner must destroy it there.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "lib/membership/channels.hpp"
#include "lib/membership/coordination.hpp"
#include "lib/membership/wishes.hpp"

namespace rdmc::member_groups {

/// This member's part in one group.
class LocalGroup {
 public:
  virtual ~LocalGroup() = default;
  virtual const GroupState& state() const = 0;
  virtual void on_view(const View& view) = 0;
  /// Called when the leases in all views before that of `epoch` have ended.
  virtual void on_leases_over(Epoch epoch) = 0;
  /// Called when there is a new channel to that member of the view.
  virtual void on_channel(MemberId member) = 0;
  virtual void begin(const NewEpoch& epoch) = 0;
  virtual void drain(std::uint64_t epoch) = 0;
  virtual void all_close(std::uint64_t epoch) = 0;
  virtual void refuse(const Refusal& refusal) = 0;
  /// Called when a member offers the blob of its node. Must accept the offer with the blob of this member's
  /// node, or refuse it.
  virtual void on_offer(MemberId from, peer::Request offer) = 0;
  virtual void on_wanted(MemberId from) = 0;
  /// Ends this part. No other function is called after this.
  virtual void end(const Error& cause) = 0;
};

class Groups {
 public:
  Groups(std::shared_ptr<peer::Peers> peers, const std::string& name);

  /// Allows other members to open channels. Errors: those of Channels::serve.
  Result<void> open(MemberId self);
  void install(const View& view);
  void on_leases_over(Epoch epoch);
  /// Ends all groups.
  void end(const Error& cause);

  // -- The groups call these functions. --

  MemberId self() const { return self_; }
  const View& view() const { return view_; }
  control::ControlLoop& loop() const { return peers_->loop(); }
  std::uint64_t next_number() { return ++last_number_; }
  /// Adds a group that the application has made. Errors: already_exists, resource_limit, cancelled if the
  /// membership has ended.
  Result<void> add(GroupNumber number, const std::shared_ptr<LocalGroup>& group);
  void remove(GroupNumber number);
  /// Removes the group and returns it, or null. The caller must call tell() afterwards. Needs no memory.
  std::shared_ptr<LocalGroup> take(GroupNumber number);
  /// Reports the states of this member's groups to the coordinator.
  void tell();
  void send(MemberId member, const Message& message) { channels_->send(member, message); }
  Channels& channels() { return *channels_; }

 private:
  /// The epoch that this member has begun in a group, if it is the coordinator of the present view.
  struct Coordinated {
    std::optional<Begun> begun;
    Time at{};
    std::optional<Time> unconnected_since;
    control::Timer again;
  };

  std::optional<MemberId> coordinator() const;
  State state() const;
  void on_opened(MemberId member);
  void on_said(MemberId member, Message message);
  void on(MemberId from, State state);
  void on(MemberId from, const NewEpoch& epoch);
  void on(MemberId from, const AllClose& close);
  void on(MemberId from, const Drain& drain);
  void on(MemberId from, const Refusal& refusal);
  void on(MemberId from, const NodeWanted& wanted);
  void consider();
  void consider(GroupNumber number, const std::vector<MemberId>& order, GroupStates states,
                Circumstances circumstances);
  void note(MemberId from, State state);
  void refuse(GroupStates& states, GroupNumber number, const std::vector<MemberId>& refused,
              bool is_left_out);
  template <typename Order>
  void give(MemberId member, const Order& order);
  void begin(GroupNumber number, NewEpoch epoch, const GroupStates& states);
  LocalGroup* find(GroupNumber number) const;
  void connect(LocalGroup& group);
  void make_room();

  const std::shared_ptr<peer::Peers> peers_;
  MemberId self_{};
  View view_;
  Epoch leases_over_{};
  std::uint64_t last_number_ = 0, epochs_begun_ = 0;
  bool is_over_ = false;
  std::map<GroupNumber, std::shared_ptr<LocalGroup>> groups_;
  std::map<MemberId, State> states_;  // the newest reports of the members
  Wishes wishes_;                     // the one-time wishes in those reports
  // On the coordinator: the time since which a member has not reported in the present view. If the time limit
  // of a member has passed, the coordinator does not wait for this member in the next view either.
  std::map<MemberId, Time> silent_since_;
  control::Timer silence_;
  std::set<MemberId> reopened_;  // members with a new channel that have reported nothing on it
  std::map<GroupNumber, Coordinated> coordinated_;
  // Detects posted tasks that run after the destruction.
  std::shared_ptr<char> alive_ = std::make_shared<char>();
  std::unique_ptr<Channels> channels_;
};

}  // namespace rdmc::member_groups
