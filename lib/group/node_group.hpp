// One group of a Node: what the application has asked for and its callbacks on one side, the group's member
// on the other. Commands come from any thread through a queue; all else is the engine's thread's.
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
#include "lib/include/rdmc/group.hpp"

namespace rdmc::group {

class NodeGroup final : public Listener {
 public:
  /// Commands that wait for the engine.
  static constexpr std::size_t kMostCommands = 1 << 16;
  using Destroyed = std::function<void(Result<void>)>;
  struct Send {
    std::span<const std::byte> bytes;
  };
  struct Buffer {
    std::span<std::byte> bytes;
  };
  struct Destroy {
    Destroyed done;
  };
  using Command = std::variant<Send, Buffer, Destroy>;

  /// `members` by rank.
  /// `some_over` is set when the group is over.
  NodeGroup(std::vector<NodeId> members, GroupCallbacks callbacks, bool& some_over)
      : members_(std::move(members)), callbacks_(std::move(callbacks)), some_over_(some_over) {}

  /// Errors: those of Group::create.
  Result<void> open(Peers& peers, const GroupConfig& config);

  // -- any thread --

  /// The number of the message. Errors: as Node::send.
  Result<std::uint64_t> send(std::span<const std::byte> bytes);
  Result<void> post(std::span<std::byte> buffer);
  Result<void> destroy(Destroyed done);
  /// True once after commands have come: somebody must have run() called.
  bool wants_to_run();

  // -- the engine's thread --

  /// Does what was asked.
  void run();
  /// All is said and done, the memory is the application's. Any thread.
  bool is_over() const { return over_; }

 private:
  /// A message's memory, from the moment it has some to the moment it is the application's again.
  struct Held {
    std::span<std::byte> bytes;
    std::unique_ptr<MemoryStore> store;  // none: the message is small
  };

  Result<void> may_call() const;
  Result<void> push(Command command);
  void execute(Send& send);
  void execute(Buffer& buffer);
  void execute(Destroy& destroy);
  void serve_waiting();
  std::optional<std::span<std::byte>> place(std::uint64_t message, std::uint64_t bytes);
  Store& hold(std::uint64_t message, std::span<std::byte> memory, std::uint64_t bytes);
  void finish();

  Store* incoming(std::uint64_t message, std::uint64_t bytes) override;
  bool small(std::uint64_t message, std::span<const std::byte> bytes) override;
  void delivered(std::uint64_t message) override;
  void completed(std::uint64_t message) override;
  void stable(std::uint64_t count) override;
  void failed(std::optional<Rank> member, const Error& error) override;
  void released() override;

  const std::vector<NodeId> members_;
  GroupCallbacks callbacks_;
  bool& some_over_;
  std::unique_ptr<Group> group_;
  bool is_root_ = false;

  mutable std::mutex mutex_;  // of what callers see
  std::deque<Command> commands_;
  bool told_ = false;  // that there are commands
  std::uint64_t next_send_ = 0;
  bool destroying_ = false, failed_ = false;

  std::map<std::uint64_t, Held> held_;
  std::deque<std::span<std::byte>> buffers_;
  struct Waiting {
    std::uint64_t message = 0, bytes = 0;
  };
  std::deque<Waiting> waiting_;         // large ones that the application had no memory for
  std::optional<std::uint64_t> asked_;  // the small message that was asked about last
  std::optional<Destroyed> done_;
  std::optional<Error> failure_;
  bool released_ = false;
  std::atomic<bool> over_ = false;
};

}  // namespace rdmc::group
