// The part of an endpoint that runs on a fabric thread: its links, the regions that peers may access, and
// their turns on the engine. Other threads hand over tasks, which the fabric thread runs in its next turn.
// Handing over a task never waits. The owner must call end_links() and leave() before it releases this
// object. If memory runs out, only the link or region that lacks it ends. Ending needs no memory.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "controlplane/peer/fabric_thread.hpp"
#include "controlplane/peer/last_turns.hpp"
#include "lib/unicast/link.hpp"

namespace rdmc::unicast {

/// The counters of EndpointCounters. Any thread may increase them.
struct Counters {
  std::atomic<std::uint64_t> connections_made = 0, connections_accepted = 0, peers_refused = 0,
                             disconnected = 0;
  std::atomic<std::uint64_t> sends = 0, writes = 0, reads = 0, atomics = 0, receives = 0, bytes_received = 0,
                             failed = 0;
  std::atomic<std::uint64_t> grants = 0, revocations = 0, completions_dropped = 0;

  EndpointCounters values() const;
};

class DataPath;

/// The state behind a Region. Only the fabric thread uses it, except for the constant members.
struct RegionState {
  const std::span<std::byte> memory;
  const RemoteAccess access;
  const std::weak_ptr<DataPath> data_path;
  /// The registration for the local side's own operations.
  std::unique_ptr<fabric::MemoryRegion> pinned = nullptr;
  std::map<ConnectionId, std::unique_ptr<fabric::MemoryRegion>> grants = {};
  // Protected by tasks_mutex_ of the data path.
  RegionState* next_removed = nullptr;
  bool is_removed = false;
};

class DataPath final : private engine::Poller, public std::enable_shared_from_this<DataPath> {
 public:
  struct Handlers {
    /// If empty, completions are kept for take().
    std::function<void(std::span<const Completion>)> completed;
    /// Called when the link has ended, after all of its completions were delivered.
    std::function<void(const std::shared_ptr<Link>&, const Error& cause)> ended;
  };

  /// Must not be called in an upcall.
  DataPath(std::shared_ptr<peer::FabricThread> thread, Handlers handlers, std::shared_ptr<Counters> counters);
  ~DataPath() override = default;
  /// Adds this object to the engine of the fabric thread. Call it once.
  void start();
  // The next three functions end this object. They must be called on a thread other than the fabric thread.
  // If the application drives the engine, the thread that drives it may also call them, outside of a turn.

  /// Ends all links, and waits until all of them have ended.
  void end_links();
  /// Runs the tasks that were handed over.
  void finish_tasks();
  /// Runs all tasks, ends all regions, and leaves the engine.
  void leave();

  peer::FabricThread& thread() { return *thread_; }

  // -- Any thread may call these functions. --

  /// Runs `task` on the fabric thread in its next turn, in the order of the calls. Never waits. The task must
  /// handle std::bad_alloc itself and must not throw.
  void run(std::move_only_function<void()> task);
  /// Makes the engine give this object a turn.
  void kick() noexcept;
  /// Adds a link, which gets its turns from the next turn of this object on. The link is added before any
  /// task runs that is handed over later. Must not be called after end_links().
  void add(std::shared_ptr<Link> link);
  /// Takes completions in the order in which the operations ended, and returns their number. If there is
  /// none, waits for at most `longest`.
  std::size_t take(std::span<Completion> out, Duration longest);

  // -- Only the fabric thread may call these functions, in tasks and upcalls. --

  fabric::Fabric& fabric() { return thread_->fabric(); }
  /// Closes the link to new operations and ends it a few turns later. In these turns the peer's last messages
  /// can still arrive and be acknowledged. With `at_once` the link ends without these turns. If the link has
  /// failed and waits for the peer's explanation, `cause` is taken as this explanation.
  void end(Link& link, Error cause, bool at_once = false);

  // -- Any thread may call these functions. They wait for the fabric thread. --

  Capabilities capabilities();
  Result<void> add(const std::shared_ptr<RegionState>& region);
  /// Ends the region. Needs no memory.
  void remove(RegionState& region) noexcept;
  Result<RemoteMemory> grant(RegionState& region, Link& link, const GrantOptions& options);
  Result<void> revoke(RegionState& region, const Link& link);

 private:
  struct Ending {
    Error cause;
    bool at_once = false;
    peer::LastTurns last_turns = {};
    /// Set if the queue pair failed. Until this time, the peer may give the cause on the control plane, or
    /// confirm that it has received the local side's refusal.
    std::optional<Time> word_until = std::nullopt;
    bool is_explained = false;  ///< the cause is known, and the peer's explanation does not change it
  };
  struct Entry {
    std::shared_ptr<Link> link;
    std::optional<Ending> ending;
  };

  std::size_t work(Time now) override;
  Time next_deadline() const override;
  void on_out_of_memory() override;
  void take_added();
  std::size_t run_tasks();
  std::size_t remove_regions();
  std::size_t take_completions(Entry& entry);
  std::size_t turn(Entry& entry, Time now);
  void on_fault(Entry& entry, Link::Fault fault, Time now);
  bool may_finish(Entry& entry, std::size_t done, Time now) const;
  void finish(Entry& entry);
  void deliver(const std::shared_ptr<Link>& link, std::span<const Completion> completions);
  void count(const Completion& completion);
  bool is_ours(const Link& link) const;
  void end_region(RegionState& region);

  const std::shared_ptr<peer::FabricThread> thread_;
  const Handlers handlers_;
  /// The counters are shared, because a region may end at the same time as the endpoint.
  const std::shared_ptr<Counters> counters_;

  std::mutex tasks_mutex_;
  std::vector<std::move_only_function<void()>> tasks_;
  std::map<ConnectionId, Entry> added_;  ///< links that are not in links_ yet
  RegionState* removed_ = nullptr;       ///< the list of the regions that are to end
  std::condition_variable some_removed_;
  bool has_left_ = false;
  std::atomic<bool> kicked_ = false;

  std::mutex taken_mutex_;
  std::condition_variable some_;
  std::deque<std::pair<std::shared_ptr<Link>, Completion>> ended_;  // completions for take()

  // Only the fabric thread uses the following members.
  std::map<ConnectionId, Entry> links_;
  std::map<const RegionState*, std::shared_ptr<RegionState>> regions_;
  std::optional<std::promise<void>> stopping_;  ///< fulfilled when no link is left
  // Buffers for one turn of one link. They are members because constructing them costs more than a turn
  // without work.
  std::array<fabric::Completion, 64> polled_;
  std::array<Completion, 64> completions_;
};

}  // namespace rdmc::unicast
