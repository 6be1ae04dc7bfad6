// A receiver's part in a group. It joins at the root's address, connects to the members that the root names,
// and follows the views that the root sends. It runs on the control loop.
#pragma once

#include <set>

#include "lib/socket/group_session.hpp"

namespace rdmc::sockets {

class GroupMember final : public GroupSession {
 public:
  using GroupSession::GroupSession;

  /// The name of the service that a root offers. The greeting of a request is the address of the root, as
  /// text.
  static constexpr const char* kService = "sockets/group";

  /// Starts to join. The outcome is reported to the GroupEnd. `errno_of` translates errors into the errno
  /// that the application gets. Any thread may call this.
  void join(const Address& root, int (*errno_of)(const Error&));

 private:
  void say_goodbye() override;
  void disconnect(std::uint32_t peer) override;
  void on_group_failed(std::uint64_t epoch, std::optional<std::uint32_t> blamed) override;
  void start(control::Channel channel);
  void on_word(const GroupWord& word);
  void on_welcome(const GroupWord& word);
  void on_peer(const GroupWord& word);
  void offer_to(std::uint32_t peer);
  void connected(std::uint32_t peer);
  void on_view(const GroupWord& word);
  void give_up(int error);

  peer::Peers::Handle attempt_;
  control::Timer patience_;
  std::optional<control::Channel> channel_;
  // The peers that are in the group or about to join it. There are at most kMostMembers of them.
  std::set<std::uint32_t> peers_;
  // The peers that are not connected yet. This is nullopt until the root has welcomed this member.
  std::optional<std::set<std::uint32_t>> missing_;
  std::uint32_t self_ = 0;
  bool is_ready_ = false, is_in_ = false;
};

}  // namespace rdmc::sockets
