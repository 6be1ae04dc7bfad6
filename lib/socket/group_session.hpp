// Transfers the messages of a group socket. It uses a node (lib/group), and for each view a lib/group group
// that consists of the view's members, with the same root. A member leaves a view as soon as it knows the
// next view. In the next view, the root sends again every message that some member may lack, and members
// ignore messages that they have. So the members need to agree on nothing more than the root's decision. The
// session runs on the control loop. The upcalls of the node come on the node's fabric thread. That thread
// must not wait for the sockets' lock: while it waits behind an application's calls, peers would take this
// process for dead. So the fabric thread only notes what has happened, and the control loop then passes all
// of it to the socket at once.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "controlplane/connect/channel.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "controlplane/peer/peers.hpp"
#include "lib/include/rdmc/group.hpp"
#include "lib/socket/fair_mutex.hpp"
#include "lib/socket/group_end.hpp"
#include "lib/socket/group_words.hpp"
#include "lib/socket/node_ender.hpp"

namespace rdmc::sockets {

struct GroupSessionOptions {
  control::ControlLoop& loop;
  FairMutex& lock;  ///< the sockets' lock
  peer::Peers& peers;
  std::string fabric, device, group;
  bool encrypt = false;
  std::shared_ptr<peer::Context> context = nullptr;  ///< the node uses this context's fabric thread
  NodeEnder& ender;
  /// How long a caller may take to name the group that it joins, and then how long it may take to become
  /// ready.
  Duration introduction = seconds(10);
};

class GroupSession : public std::enable_shared_from_this<GroupSession> {
 public:
  GroupSession(GroupSessionOptions options, std::shared_ptr<GroupEnd> end)
      : options_(std::move(options)), end_(std::move(end)) {}
  virtual ~GroupSession() = default;
  GroupSession(const GroupSession&) = delete;
  GroupSession& operator=(const GroupSession&) = delete;

  /// Attaches the session to its GroupEnd. Must be called with the lock.
  void attach();
  /// Must be called once, when the socket is closed. A root first waits until its messages have reached all
  /// members, at most for `longest`, and then tells them that the group ends. Then everything ends, and
  /// `done` is called on the NodeEnder's thread. Returns at once. Any thread may call this. The session must
  /// live until `done` was called.
  void leave(Duration longest, std::function<void()> done);
  /// Ends everything now, even if leave() has not finished. Only the end of the node is left to the
  /// NodeEnder. Must be called without the lock, on any thread except the fabric thread.
  void stop();

 protected:
  /// This function and the functions below are called on the control loop, unless a comment says otherwise.
  /// begin_to_leave() is called when the socket is closed. The subclass may still send and receive control
  /// messages for a while, and must then call end_soon().
  virtual void begin_to_leave(Duration) { end_soon(); }
  /// Called when more of the sent messages are known to have reached all members.
  virtual void on_progress() {}
  virtual void say_goodbye() = 0;
  /// Called when the group of this epoch has failed because of `blamed`. A member that blames itself has no
  /// memory for what the group needs. For this member, the group has then ended with ENOBUFS.
  virtual void on_group_failed(std::uint64_t epoch, std::optional<std::uint32_t> blamed) = 0;

  /// Makes the node, with the member number `id` and the address `local`. Errors: those of Node::create.
  Result<void> open_node(std::uint32_t id, Address local);
  bool has_node() const { return node_ != nullptr; }
  Result<std::vector<std::byte>> offer(std::uint32_t to) { return node_->offer(NodeId{to}); }
  Result<void> connect(std::uint32_t peer, std::span<const std::byte> offered) {
    return node_->connect(NodeId{peer}, offered);
  }
  /// Must be called when `peer` has left the group.
  virtual void disconnect(std::uint32_t peer) {
    if (node_) node_->disconnect(NodeId{peer});
  }
  /// On the root: the numbers of the messages that some member may lack. The next view sends them again, from
  /// `first` on. After take_over(), reports of the last view about these messages no longer count.
  struct Backlog {
    std::uint64_t first, next;
  };
  Backlog take_over();
  /// Passes to the socket the messages and the counts that the fabric thread has noted.
  void hand_over();
  /// Leaves the last view and begins the view `view`.
  void install(const GroupWord& view);
  /// On the root: sends the new messages.
  void flush();
  void tell(const GroupWord& view);
  static void say(control::Channel& channel, const GroupWord& word) { (void)channel.send(encode(word)); }
  /// Ends the session in a separate task of the control loop, because the caller may still use the session.
  void end_soon();
  /// Runs `task` later on the control loop, if the session still exists then and is not stopped. Any thread
  /// may call this.
  template <typename Task>
  void later(Task task) {
    options_.loop.post([weak = weak_from_this(), task = std::move(task)] {
      if (const auto self = weak.lock(); self && !self->is_stopped_) self->with_memory([&] { task(*self); });
    });
  }
  /// On the control loop: runs `task`. If `task` throws std::bad_alloc, the group ends for this member.
  template <typename Task>
  void with_memory(Task task) {
    try {
      task();
    } catch (const std::bad_alloc&) {
      end_without_memory();
    }
  }

  const GroupSessionOptions options_;
  const std::shared_ptr<GroupEnd> end_;
  bool is_stopped_ = false;

 private:
  void end_all();
  /// The group of one view, in lib/group.
  struct Generation {
    std::uint64_t epoch = 0, first = 0;
    std::uint64_t sent = 0;                           // used by the control loop only
    std::map<std::uint64_t, GroupEnd::Bytes> memory;  // the memory of messages in flight
    std::size_t placed = 0;  // the charge of the messages in `memory` that are not delivered
    std::map<std::uint64_t, std::uint64_t> waiting;  // number and length in bytes of the messages that wait
                                                     // for space
    bool is_over = false;
  };
  using Held = std::shared_ptr<Generation>;
  std::uint32_t blamed_for(const GroupWord& view) const;
  GroupCallbacks callbacks(const Held& generation);
  std::optional<std::span<std::byte>> place(Generation& generation, std::uint64_t message,
                                            std::uint64_t bytes);
  bool has_room(const Generation& generation, std::uint64_t bytes) const;
  static std::span<std::byte> give(Generation& generation, std::uint64_t message, std::uint64_t bytes);
  void give_room();
  void on_not_sent(const Error& cause);
  void end_without_memory();
  void leave_to_loop();

  // Guards what the fabric thread and the control loop share. A thread may take this mutex while it holds the
  // sockets' lock. No callback is called while this mutex is held.
  std::mutex mutex_;
  std::deque<std::pair<std::uint64_t, GroupEnd::Bytes>> fresh_;  // delivered messages: the number and the
                                                                 // bytes of each
  std::optional<std::uint64_t> stable_;  // All members have the messages below this number.
  bool is_told_ = false;                 // true if the control loop has a task to hand over
  std::size_t unread_ = 0;               // the charge of messages that are delivered and not read

  bool is_waiting_ = false;  // true if some message may wait for space
  // True if the control loop has a task to send the new messages. Guarded by the sockets' lock.
  bool is_flushing_ = false;

  // The argument `done` of leave(). Used by the control loop only, after leave() was called.
  std::function<void()> left_;

  std::vector<std::uint32_t> nodes_;  // the members of the view
  Held generation_;
  control::Timer again_;
  // Destroyed first, because its upcalls use the other members.
  std::unique_ptr<Node> node_;
};

}  // namespace rdmc::sockets
