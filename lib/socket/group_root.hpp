// The root's part in a group. Every process that joins connects to the root. The root sends it the list of
// the members, and each view. Runs on the control loop.
#pragma once

#include "lib/socket/group_book.hpp"
#include "lib/socket/group_session.hpp"

namespace rdmc::sockets {

class GroupRoot final : public GroupSession {
 public:
  using GroupSession::GroupSession;

  /// Must be called with the channel of each process that has connected to the root's listener and has proved
  /// the key.
  void on_channel(control::Channel channel);

 private:
  struct Caller {
    explicit Caller(control::Channel c) : channel(std::move(c)) {}
    control::Channel channel;
    std::optional<std::uint32_t> node;       // set when the caller has joined
    std::optional<control::Timer> patience;  // set until the caller is ready
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
  /// How far the close of the socket has come:
  /// - no: the socket is not being closed.
  /// - sends: members may still lack messages.
  /// - has_told: the members were told that the group ends.
  enum class Leaving : std::uint8_t { no, sends, has_told } leaving_ = Leaving::no;
  control::Timer leave_patience_;
  std::map<const Caller*, std::unique_ptr<Caller>> callers_;
};

}  // namespace rdmc::sockets
