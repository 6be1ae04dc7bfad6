// A receiver's part in a group: it joins at the root's address, connects to whom the root names, and follows
// the views that the root tells. On the control loop.
#pragma once

#include <set>

#include "lib/socket/group_session.hpp"

namespace rdmc::sockets {

class GroupMember final : public GroupSession {
 public:
  using GroupSession::GroupSession;

  /// The service of roots. Its greeting is the address of the root, as text.
  static constexpr const char* kService = "sockets/group";

  /// Any thread. How it went, the end learns. `errno_of` says what an error is to the application.
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
  std::set<std::uint32_t> peers_;                   // there or about to be, at most kMostMembers
  std::optional<std::set<std::uint32_t>> missing_;  // once welcome: who is not connected yet
  std::uint32_t self_ = 0;
  bool is_ready_ = false, is_in_ = false;
};

}  // namespace rdmc::sockets
