// The root's part in a group: everybody who joins comes to it, learns from it who is there, and hears each
// view from it. On the control loop.
#pragma once

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
  void begin_to_leave(Duration longest) override;
  void on_progress() override;
  void say_goodbye() override;
  void say_the_end();
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
  /// How far the close of the socket has come: members may lack messages, or they have been told of the end.
  enum class Leaving : std::uint8_t { no, sends, has_told } leaving_ = Leaving::no;
  control::Timer leave_patience_;
  std::map<const Caller*, std::unique_ptr<Caller>> callers_;
};

}  // namespace rdmc::sockets
