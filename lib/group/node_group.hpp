// One group of a Node. It connects the application's commands and callbacks with the member of the group in
// the present epoch, or with the recovery that begins the next epoch. Commands come from any thread through a
// queue. Everything else happens on the fabric thread. The functions are defined in three files:
//   - node_group.cpp: the functions that the application calls;
//   - node_group_messages.cpp: the messages and their memory;
//   - node_group_continuing.cpp: the change from one epoch to the next.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "lib/group/group.hpp"
#include "lib/group/memory_store.hpp"
#include "lib/group/node_counters.hpp"
#include "lib/group/ranking.hpp"
#include "lib/group/recovery.hpp"
#include "lib/include/rdmc/group.hpp"

namespace rdmc::group {

class NodeGroup final : public Survivor {
 public:
  /// The limit for commands that wait for the fabric thread.
  static constexpr std::size_t kMostCommands = 1 << 16;
  /// The limit for commands that are executed at a time. It lets the engine's other pollers get their turns.
  static constexpr std::size_t kCommandsPerTurn = 1024;
  /// The limit for messages that were sent and are not reusable yet.
  static constexpr std::uint64_t kMostQueued = 1 << 16;
  using Destroyed = std::function<void(Result<void>)>;
  struct Send {
    std::span<const std::byte> bytes;
  };
  struct Buffer {
    std::span<std::byte> bytes;
  };
  struct Release {
    std::uint64_t message = 0;
  };
  struct Tell {
    std::vector<std::byte> bytes;
  };
  using Command = std::variant<Send, Buffer, Release, Tell>;

  /// `members` must be in the order of ranks. `rack_of` must be empty or contain every member. If
  /// `racks_are_hosts` is set, the racks are the hosts of connected nodes, and members with unknown racks may
  /// join later. `some_changed` is set when tidy() must be called.
  NodeGroup(std::vector<NodeId> members, RackOf rack_of, bool can_continue, GroupCallbacks callbacks,
            bool& some_changed, NodeCounts& counts, bool racks_are_hosts = false)
      : racks_are_hosts_(racks_are_hosts),
        members_(std::move(members)),
        rack_of_(std::move(rack_of)),
        can_continue_(can_continue),
        callbacks_(std::move(callbacks)),
        some_changed_(some_changed),
        counts_(counts) {}

  /// Opens the group in its first epoch. Errors: those of Group::create.
  Result<void> open(Peers& peers, const GroupConfig& config);
  /// Makes this member join a group that others continue in this epoch. Errors: those of Group::create.
  Result<void> join(Peers& peers, const GroupConfig& config);

  // -- Any thread may call these functions. --

  /// Queues a message for sending, and returns its number. Errors: those of Node::send.
  Result<std::uint64_t> send(std::span<const std::byte> bytes);
  Result<void> post(std::span<std::byte> buffer);
  Result<void> release(std::uint64_t message);
  /// Queues a note for the root.
  Result<void> tell_root(std::vector<std::byte> bytes);
  /// Queues the request to destroy the group. Allocates no memory.
  Result<void> destroy(Destroyed done);
  /// Returns true once for each batch of commands. The caller must then make the fabric thread call run().
  bool wants_to_run();

  // -- Only the fabric thread may call these functions, except is_over(). --

  /// Executes the commands that wait.
  void run();
  /// The present epoch, or the next epoch if a continuation has already begun it.
  std::uint64_t epoch() const { return config_.name.epoch; }
  /// Requests the next epoch. Errors: those of Node::continue_group.
  Result<void> continue_as(std::uint64_t epoch, std::vector<NodeId> survivors, NodeId root, NodeId us);
  /// Begins a requested epoch, finishes a group that is being destroyed, and executes the commands that are
  /// left. Must be called between turns, because none of this may be done in an upcall.
  void tidy();
  /// Ends the epoch at every member, with this member to blame.
  void give_up(const Error& cause) { group().give_up(cause); }
  /// True if the group has ended and the application may use all its memory again. Any thread may call this
  /// function.
  bool is_over() const { return over_; }

 private:
  /// In `open`, messages are sent and delivered. `failed` lasts until continue_as() or destroy().
  /// `continuing` lasts until the next epoch is open.
  enum class Phase : std::uint8_t { open, failed, continuing };
  /// Memory that the application has given for a message.
  struct MessageBuffer {
    std::span<std::byte> bytes;   // The part for the message; it is as long as the message.
    std::span<std::byte> posted;  // The whole buffer, if it was posted.
  };
  /// The memory of a message, from the time when this member knows the message until the memory is reusable.
  struct Held {
    std::span<std::byte> bytes;
    std::unique_ptr<MemoryStore> store;  // Exists only while the data path uses it for a large message.
    std::uint32_t block_bytes = 0;       // The block size of a large message.
    std::span<std::byte> posted;         // The whole buffer, if it was posted.
    std::shared_ptr<const void> mapped;  // Keeps the root's memory mapped for a mapped message.
    // After a failure, the blocks that have arrived of a message that is not delivered.
    std::optional<relay::BlockMap> have;
    // Memory of this process, used if a message is recovered before the application has given memory for it.
    memory::Arena stand_in;
    // The application's memory that was given after `stand_in` was made.
    std::optional<MessageBuffer> awaited;
  };

  Result<void> may_call() const;
  void execute_commands(std::size_t at_most);
  bool take_commands();
  void execute(Send& send);
  void execute(Buffer& buffer);
  void execute(Release& release);
  void execute(Tell& tell);
  void execute_destroy();
  void submit_all();
  bool submit(std::uint64_t number);
  void finish();

  // Defined in node_group_messages.cpp.
  void serve_waiting();
  std::optional<MessageBuffer> find_buffer(std::uint64_t message, std::uint64_t bytes, bool ask);
  bool fits(std::span<std::byte> memory, std::uint64_t bytes);
  Store& hold(std::uint64_t message, const MessageBuffer& buffer);
  void deliver(std::uint64_t message, std::span<std::byte> bytes);
  void reuse();

  // Defined in node_group_continuing.cpp.
  /// The group of the present epoch.
  Group& group() { return recovery_ ? recovery_->group() : *group_; }
  bool is_released() const { return recovery_ ? recovery_->is_released() : group_->is_released(); }
  /// The number that the application uses for the group's message 0. The application's numbering does not
  /// restart with a new epoch.
  std::uint64_t offset() const { return recovery_ ? recovery_->offset() : 0; }
  void set_phase(Phase phase);
  void fail_with(std::optional<Rank> member, const Error& error);
  void begin_next();
  void deliver_recovered();
  void settle();

  Store* incoming(std::uint64_t message, std::uint64_t bytes) override;
  bool small(std::uint64_t message, std::span<const std::byte> bytes) override;
  void mapped(std::uint64_t message, const fabric::MappedMemory& memory) override;
  void delivered(std::uint64_t message) override;
  void completed(std::uint64_t message) override;
  void stable(std::uint64_t count) override;
  void held_up(const std::optional<Holder>& holder) override;
  void told(Rank from, std::span<const std::byte> note) override;
  void failed(std::optional<Rank> member, const Error& error) override;
  void released() override;

  SurvivorState survivor_state() override;
  Result<void> on_plan(const RecoveryPlan& plan) override;
  std::span<std::byte> bytes_of(std::uint64_t message) override;
  bool has_block(std::uint64_t message, std::uint64_t block) const override;
  void recovered(std::uint64_t message, std::uint64_t block) override;
  void all_recovered() override;
  void succeeded() override;

  const bool racks_are_hosts_;
  std::vector<NodeId> members_;
  RackOf rack_of_;
  const bool can_continue_;
  GroupCallbacks callbacks_;
  bool& some_changed_;
  NodeCounts& counts_;
  Peers* peers_ = nullptr;
  // The number of links that this node had made when the present epoch began.
  std::uint64_t links_made_ = 0;
  GroupConfig config_;
  std::unique_ptr<Group> group_;        // The group of the first epoch.
  std::unique_ptr<Recovery> recovery_;  // The recovery of each later epoch.

  // Protects commands_, destroy_, told_, next_send_, is_root_, destroying_ and phase_.
  mutable std::mutex mutex_;
  std::deque<Command> commands_;
  std::optional<Destroyed> destroy_;  // Executed after all commands.
  std::deque<Command> executing_;     // The fabric thread executes these first.
  bool has_more_ = false;             // Commands are left for the next turn.
  bool told_ = false;                 // wants_to_run() has returned true for the present batch.
  std::uint64_t next_send_ = 0;
  bool is_root_ = false, destroying_ = false;
  bool joins_ = false;  // This member has not been in an open epoch yet.
  Phase phase_ = Phase::open;

  std::map<std::uint64_t, Held> held_;
  std::uint64_t next_to_send_ = 0;  // Root: the commands for messages below this number were executed.
  // Root: messages below this number were given to the data path, or are left to the next epoch.
  std::uint64_t next_to_submit_ = 0;
  std::uint64_t delivered_ = 0;  // Receivers: messages below this number are delivered.
  std::uint64_t completed_ = 0, stable_ = 0;
  // Messages below this number are reusable. Other threads read this value.
  std::atomic<std::uint64_t> reusable_ = 0;
  std::deque<std::span<std::byte>> buffers_;
  struct Waiting {
    std::uint64_t message = 0, bytes = 0;
  };
  // Large messages for which the application had no memory.
  std::deque<Waiting> waiting_;
  std::optional<std::uint64_t> asked_;  // The message that incoming() was last called for.
  std::optional<Destroyed> done_;
  std::optional<Error> failure_;
  std::atomic<bool> over_ = false;

  struct Next {
    std::uint64_t epoch = 0;
    Ranking ranking;
    Rank rank{};
  };
  std::optional<Next> next_;  // The epoch that was requested and has not begun.
  // If this member is a former root, it reports only messages below this number to the new root.
  std::uint64_t handed_ = 0;
  std::optional<RecoveryPlan> plan_;  // The plan of the recovery.
  bool all_recovered_ = false;
};

}  // namespace rdmc::group
