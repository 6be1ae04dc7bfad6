// One group of a Node: what the application has asked for and its callbacks on one side, the group's member
// in its present epoch, or the recovery to the next, on the other. Commands come from any thread through a
// queue; all else is the fabric thread's. Its bodies: node_group.cpp what the application calls,
// node_group_messages.cpp messages and their memory, node_group_continuing.cpp one epoch's end and the next.
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
  /// Commands that wait for the engine.
  static constexpr std::size_t kMostCommands = 1 << 16;
  /// At most so many are executed at a time, so that the engine's other pollers get their turns.
  static constexpr std::size_t kCommandsPerTurn = 1024;
  /// Messages that were sent and whose memory is not the application's again.
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
  using Command = std::variant<Send, Buffer, Release>;

  /// `members` by rank, of whom `rack_of` knows all or nobody; `racks_are_hosts`: where they are the hosts of
  /// connected nodes, members may join later. `some_changed` is set when somebody must call
  /// tidy().
  NodeGroup(std::vector<NodeId> members, RackOf rack_of, bool can_continue, GroupCallbacks callbacks,
            bool& some_changed, NodeCounts& counts, bool racks_are_hosts = false)
      : racks_are_hosts_(racks_are_hosts),
        members_(std::move(members)),
        rack_of_(std::move(rack_of)),
        can_continue_(can_continue),
        callbacks_(std::move(callbacks)),
        some_changed_(some_changed),
        counts_(counts) {}

  /// Errors: those of Group::create.
  Result<void> open(Peers& peers, const GroupConfig& config);
  /// Takes part in a group that others continue in this epoch. Errors: those of Group::create.
  Result<void> join(Peers& peers, const GroupConfig& config);

  // -- any thread --

  /// The number of the message. Errors: as Node::send.
  Result<std::uint64_t> send(std::span<const std::byte> bytes);
  Result<void> post(std::span<std::byte> buffer);
  Result<void> release(std::uint64_t message);
  /// Needs no memory.
  Result<void> destroy(Destroyed done);
  /// True once after commands have come: somebody must have run() called.
  bool wants_to_run();

  // -- the fabric thread --

  /// Does what was asked.
  void run();
  /// The present one, or the one that a continuation has begun.
  std::uint64_t epoch() const { return config_.name.epoch; }
  /// Errors: as Node::continue_group.
  Result<void> continue_as(std::uint64_t epoch, std::vector<NodeId> survivors, NodeId root, NodeId us);
  /// From one epoch to the next, which no upcall can do. Between turns.
  void tidy();
  /// It ends for everybody, and we are to blame.
  void give_up(const Error& cause) { group().give_up(cause); }
  /// All is said and done, the memory is the application's. Any thread.
  bool is_over() const { return over_; }

 private:
  /// open: messages are sent and delivered; failed: until continue_as(); continuing: until the next epoch.
  enum class Phase : std::uint8_t { open, failed, continuing };
  /// Memory that the application has given for a message.
  struct MessageBuffer {
    std::span<std::byte> bytes;   // as long as the message
    std::span<std::byte> posted;  // the whole buffer, if it was posted
  };
  /// A message's memory, from the moment it has some to the moment it is the application's again.
  struct Held {
    std::span<std::byte> bytes;
    std::unique_ptr<MemoryStore> store;    // none: the message is small
    std::uint32_t block_bytes = 0;         // it travels in blocks of it, if it is large
    std::span<std::byte> posted;           // the whole buffer, if it was posted
    std::shared_ptr<const void> view;      // keeps the root's memory, if it is looked at there
    std::optional<relay::BlockMap> have;   // after a failure: what is there of a message not delivered
    memory::Arena stand_in;                // of a message that is recovered before it has memory …
    std::optional<MessageBuffer> awaited;  // … that it has got meanwhile
  };

  Result<void> may_call() const;
  void execute_commands(std::size_t at_most);
  bool take_commands();
  void execute(Send& send);
  void execute(Buffer& buffer);
  void execute(Release& release);
  void execute_destroy();
  void submit_all();
  bool submit(std::uint64_t number);
  void finish();

  // node_group_messages.cpp
  void serve_waiting();
  std::optional<MessageBuffer> find_buffer(std::uint64_t message, std::uint64_t bytes, bool ask);
  bool fits(std::span<std::byte> memory, std::uint64_t bytes);
  Store& hold(std::uint64_t message, const MessageBuffer& buffer);
  void deliver(std::uint64_t message, std::span<std::byte> bytes);
  void reuse();

  // node_group_continuing.cpp
  /// Of the present epoch.
  Group& group() { return recovery_ ? recovery_->group() : *group_; }
  bool is_released() const { return recovery_ ? recovery_->is_released() : group_->is_released(); }
  /// The application's number of the group's message 0.
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
  std::uint64_t links_made_ = 0;  // by our node, when the present epoch began
  GroupConfig config_;
  std::unique_ptr<Group> group_;        // of the first epoch
  std::unique_ptr<Recovery> recovery_;  // of each later one

  mutable std::mutex mutex_;  // of what callers see
  std::deque<Command> commands_;
  std::optional<Destroyed> destroy_;  // what comes after all commands
  std::deque<Command> executing_;     // the engine executes these first
  bool has_more_ = false;             // commands are left for the next turn
  bool told_ = false;                 // that there are commands
  std::uint64_t next_send_ = 0;
  bool is_root_ = false, destroying_ = false;
  bool joins_ = false;  // it has not been in an open epoch yet
  Phase phase_ = Phase::open;

  std::map<std::uint64_t, Held> held_;
  std::uint64_t next_to_send_ = 0;    // root: messages below are ours …
  std::uint64_t next_to_submit_ = 0;  // … and were given to the data path, or would have been
  std::uint64_t delivered_ = 0;       // receivers: messages below
  std::uint64_t completed_ = 0, stable_ = 0;
  std::atomic<std::uint64_t> reusable_ = 0;  // other threads read it
  std::deque<std::span<std::byte>> buffers_;
  struct Waiting {
    std::uint64_t message = 0, bytes = 0;
  };
  std::deque<Waiting> waiting_;         // large ones that the application had no memory for
  std::optional<std::uint64_t> asked_;  // the message that incoming() was called for last
  std::optional<Destroyed> done_;
  std::optional<Error> failure_;
  std::atomic<bool> over_ = false;

  struct Next {
    std::uint64_t epoch = 0;
    Ranking ranking;
    Rank rank{};
  };
  std::optional<Next> next_;          // asked for, and not begun
  std::uint64_t handed_ = 0;          // a sender's: messages below have begun
  std::optional<RecoveryPlan> plan_;  // of the recovery
  bool all_recovered_ = false;
};

}  // namespace rdmc::group
