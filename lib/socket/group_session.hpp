// What moves a group socket's messages: a node (lib/group) and, for each view of the group, a group of its
// members under the root. A view is left as soon as the next one is known: what the root does not know to be
// everywhere it sends once more, and members ignore what they have. So a view needs no more agreement than
// the root's word. Lives on the control loop. The node's upcalls come on its engine's thread, which never
// waits for the sockets' lock - peers would take an engine that queues behind an application's calls for dead
// - but leaves what has happened to the loop, which tells the socket all of it at once.
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
  FairMutex& lock;  ///< the sockets'
  peer::Peers& peers;
  std::string fabric, device, group;
  bool encrypt = false;
  std::shared_ptr<peer::Context> context = nullptr;  ///< whose thread the node shares
  NodeEnder& ender;
  Duration introduction = seconds(10);  ///< how long a caller has to say whom it joins, and again to be ready
};

class GroupSession : public std::enable_shared_from_this<GroupSession> {
 public:
  GroupSession(GroupSessionOptions options, std::shared_ptr<GroupEnd> end)
      : options_(std::move(options)), end_(std::move(end)) {}
  virtual ~GroupSession() = default;
  GroupSession(const GroupSession&) = delete;
  GroupSession& operator=(const GroupSession&) = delete;

  /// With the lock.
  void attach();
  /// The socket is closed: tells the others when what was sent is everywhere, or `longest` is over, ends all,
  /// and calls `done` on the ender's thread. Returns at once; any thread. Once; keeps the session until then.
  void leave(Duration longest, std::function<void()> done);
  /// Ends all now, wherever leave() has come to; only the node is left to the ender. Not with the lock; any
  /// thread but the engine's.
  void stop();

 protected:
  /// On the loop's thread, as all below. The socket is closed; what is to be said and heard before all ends
  /// may take a while, and then end_soon() ends it.
  virtual void begin_to_leave(Duration) { end_soon(); }
  /// More of what was sent is known to be everywhere.
  virtual void on_progress() {}
  virtual void say_goodbye() = 0;
  /// Who blames itself has no memory for what the group asks of it: it is over, with ENOBUFS.
  virtual void on_group_failed(std::uint64_t epoch, std::optional<std::uint32_t> blamed) = 0;

  /// Errors: those of Node::create.
  Result<void> open_node(std::uint32_t id, Address local);
  bool has_node() const { return node_ != nullptr; }
  Result<std::vector<std::byte>> offer(std::uint32_t to) { return node_->offer(NodeId{to}); }
  Result<void> connect(std::uint32_t peer, std::span<const std::byte> offered) {
    return node_->connect(NodeId{peer}, offered);
  }
  /// Of somebody who is out.
  virtual void disconnect(std::uint32_t peer) {
    if (node_) node_->disconnect(NodeId{peer});
  }
  /// The root: what a next view begins with, the messages that some member may lack. From here on nothing
  /// that the last view tells of them counts: the next one sends them from the first of these on.
  struct Backlog {
    std::uint64_t first, next;
  };
  Backlog take_over();
  /// The socket gets what the engine has left for it.
  void hand_over();
  /// Leaves the view before.
  void install(const GroupWord& view);
  /// The root: sends what is new.
  void flush();
  void tell(const GroupWord& view);
  static void say(control::Channel& channel, const GroupWord& word) { (void)channel.send(encode(word)); }
  /// In a task of its own: whoever calls may be in the middle of something.
  void end_soon();
  /// Later, on the loop's thread, if we are there still; any thread.
  template <typename Task>
  void later(Task task) {
    options_.loop.post([weak = weak_from_this(), task = std::move(task)] {
      if (const auto self = weak.lock(); self && !self->is_stopped_) self->with_memory([&] { task(*self); });
    });
  }
  /// On the loop: `task`, of which the group ends for us when the process has no memory for it.
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
  /// One view's group.
  struct Generation {
    std::uint64_t epoch = 0, first = 0;
    std::uint64_t sent = 0;                           // the loop's
    std::map<std::uint64_t, GroupEnd::Bytes> memory;  // of messages under way
    std::size_t placed = 0;                           // their charge, of those not delivered
    std::map<std::uint64_t, std::uint64_t> waiting;   // for room: message, bytes
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

  std::mutex
      mutex_;  // of what engine and loop share; the sockets' lock may be held, nothing is called under it
  std::deque<std::pair<std::uint64_t, GroupEnd::Bytes>> fresh_;  // delivered: number, bytes
  std::optional<std::uint64_t> stable_;                          // all have those below
  bool is_told_ = false;                                         // the loop, that there is something for it
  std::size_t unread_ = 0;                                       // charge of those delivered and not read

  bool is_waiting_ = false;  // some message may be, for room
  bool is_flushing_ =
      false;  // the loop has been told that there is something to send; with the sockets' lock

  std::function<void()> left_;  // what leave() was given; the loop's, once it is called

  std::vector<std::uint32_t> nodes_;  // of the view
  Held generation_;
  control::Timer again_;
  std::unique_ptr<Node> node_;  // goes first: its upcalls use the rest
};

}  // namespace rdmc::sockets
