// The root's part in a group: everybody who joins comes to it, learns from it who is there, and hears each
// view from it. On the control loop.
#pragma once

#include <future>

#include "lib/socket/group_book.hpp"
#include "lib/socket/group_session.hpp"

namespace rdmc::sockets {

class GroupRoot final : public GroupSession {
 public:
  using GroupSession::GroupSession;

  /// Who came to our listener, and has proved the key.
  void on_channel(control::Channel channel);

 private:
  struct Caller {
    explicit Caller(control::Channel c) : channel(std::move(c)) {}
    control::Channel channel;
    std::optional<std::uint32_t> node;       // once it has joined
    std::optional<control::Timer> patience;  // until it is ready
  };
  void await_goodbye() override;
  void say_goodbye() override;
  void on_group_failed(std::uint64_t epoch, std::optional<std::uint32_t> blamed) override;
  void on_word(Caller& from, GroupWord word);
  void on_join(Caller& from, const GroupWord& word);
  void on_ready(Caller& from);
  void on_offer(Caller& from, GroupWord word);
  void end(Caller& caller, bool orderly);
  void wait_for(Caller& caller);
  void change(const std::optional<GroupBook::View>& view);
  Caller* find(std::uint32_t node);

  GroupBook book_;
  std::promise<void> gone_;  // nobody is there any more, after we have said that the group ends
  bool is_leaving_ = false;
  std::map<const Caller*, std::unique_ptr<Caller>> callers_;
};

}  // namespace rdmc::sockets
