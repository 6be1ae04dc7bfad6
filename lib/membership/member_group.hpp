// The implementation of a MemberGroup: a node of its own, its connections to the nodes of the other members
// that have made the group, and the change from one epoch to the next. Three threads use it: the
// application's threads, the control loop, which follows the coordinator, and the fabric thread, whose
// upcalls are passed on.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "lib/membership/groups.hpp"

namespace rdmc {

class MemberGroup::Impl final : public member_groups::LocalGroup, public std::enable_shared_from_this<Impl> {
 public:
  struct Setup {
    std::shared_ptr<peer::Peers> peers;  ///< keeps the control loop alive
    MemberId self{};
    GroupNumber number{};
    MemberGroupOptions options;
    MemberGroupCallbacks callbacks;
  };
  Impl(Setup setup, std::unique_ptr<Node> node)
      : setup_(std::move(setup)), owned_(std::move(node)), node_(owned_.get()) {}

  /// The id of a member's node in groups: the low 32 bits of the member id.
  static NodeId node_of(MemberId member) { return NodeId{static_cast<std::uint32_t>(value_of(member))}; }

  // -- The application's threads call these functions. --

  Result<std::uint64_t> send(std::span<const std::byte> bytes);
  Result<void> post_receive_buffer(std::span<std::byte> buffer);
  Result<void> tell_root(std::span<const std::byte> note);
  std::vector<MemberId> connected() const;
  Result<void> change_root(MemberId member);
  Result<void> close(std::function<void(Result<void>)> closed);
  bool is_open(std::uint64_t epoch) const { return opened_ == epoch && begun_ == epoch && !is_over_; }
  bool leads(std::uint64_t epoch) const { return is_open(epoch) && led_ == epoch; }
  void leave_soon(const Error& cause);
  /// Leaves the group. After this function has returned, no upcall is called.
  void leave();

  // -- The control loop calls these functions. --

  Result<void> open(member_groups::Groups& groups);
  const member_groups::GroupState& state() const override { return state_; }
  void on_view(const View& view) override;
  void on_leases_over(Epoch epoch) override;
  void on_channel(MemberId member) override;
  void begin(const member_groups::NewEpoch& epoch) override;
  void drain(std::uint64_t epoch) override;
  void all_close(std::uint64_t epoch) override;
  void refuse(const member_groups::Refusal& refusal) override;
  void on_offer(MemberId from, peer::Request offer) override;
  void on_wanted(MemberId from) override;
  void end(const Error& cause) override;

 private:
  /// Runs `action` on the control loop, unless the group has ended before.
  template <typename Action>
  void post(Action action);
  Result<void> may_call() const;
  GroupCallbacks callbacks();
  void on_failed(std::uint64_t epoch, std::optional<NodeId> node, const Error& error);
  void on_continued(std::uint64_t epoch);
  Result<void> go_on(const member_groups::NewEpoch& epoch);
  void set_failed();
  void check_closing();
  void check_drained();
  void check_connections();
  void connect_with(MemberId member);
  void on_answer(MemberId from, std::uint64_t serial, const member_groups::Bytes& blob);
  void set_connected(MemberId member);
  void set_unconnected(MemberId member);
  void forget_connection(MemberId member);
  bool is_taken(NodeId node, MemberId by_another_than) const;
  bool is_younger_than(MemberId member) const;
  void give_up(const Error& cause);
  void tell_end();
  std::optional<MemberId> member_of(std::optional<NodeId> node) const;
  std::function<void(Result<void>)> take_closed();

  const Setup setup_;
  std::unique_ptr<Node> owned_;
  Node* const node_;  // for upcalls, which use the node until it has been destroyed

  // Only the control loop uses the following members.
  member_groups::Groups* groups_ = nullptr;  // null before open(), and when the group has ended
  member_groups::GroupState state_;
  bool is_made_ = false;                       // true if the node has the group
  std::map<MemberId, std::uint64_t> offered_;  // the serial number of the newest offer to each member

  // Messages below sent_ were sent; sent_ has a meaning only at the root. Messages below stable_ are stable.
  std::atomic<std::uint64_t> sent_ = 0, stable_ = 0;
  std::atomic<bool> is_closing_ = false, is_over_ = false, is_root_ = false;
  // The newest epoch that was begun, the newest one that was open, and the newest open one in which this
  // member was the root.
  std::atomic<std::uint64_t> begun_ = 0, opened_ = 0, led_ = 0;
  std::atomic<bool> is_draining_ = false;  // true while another member is to become the root
  Error cause_{};                          // the cause of the end, set with is_over_

  mutable std::mutex mutex_;  // protects the following members
  // The present epoch, and epochs that were begun later.
  std::map<std::uint64_t, member_groups::NewEpoch> epochs_;
  std::function<void(Result<void>)> closed_;
  std::vector<MemberId> connected_;  // a copy of state_.connected
};

}  // namespace rdmc
