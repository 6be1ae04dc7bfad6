// The part of an endpoint that lives on a fabric thread: its links and the memory that peers are let into,
// with their turns on the engine. Others hand it tasks, which it runs in its next turn and which never wait
// for room. Its owner calls end_links() and leave() before it lets go of it. When memory runs out, whatever
// lacks a piece ends alone, and an end needs no memory.
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

/// What EndpointCounters counts, to be counted on any thread.
struct Counters {
  std::atomic<std::uint64_t> connections_made = 0, connections_accepted = 0, peers_refused = 0,
                             disconnected = 0;
  std::atomic<std::uint64_t> sends = 0, writes = 0, reads = 0, atomics = 0, receives = 0, bytes_received = 0,
                             failed = 0;
  std::atomic<std::uint64_t> grants = 0, revocations = 0, completions_dropped = 0;

  EndpointCounters values() const;
};

class DataPath;

/// The inside of a Region: the fabric thread's, but for what never changes.
struct RegionState {
  const std::span<std::byte> memory;
  const RemoteAccess access;
  const std::weak_ptr<DataPath> data_path;
  std::unique_ptr<fabric::MemoryRegion> pinned = nullptr;  ///< for our own operations
  std::map<ConnectionId, std::unique_ptr<fabric::MemoryRegion>> grants = {};
  // With the mutex of the data path.
  RegionState* next_removed = nullptr;
  bool is_removed = false;
};

class DataPath final : private engine::Poller, public std::enable_shared_from_this<DataPath> {
 public:
  struct Handlers {
    /// None: completions are kept for take().
    std::function<void(std::span<const Completion>)> completed;
    /// The link is over; its completions were given before.
    std::function<void(const std::shared_ptr<Link>&, const Error& cause)> ended;
  };

  /// Not in an upcall.
  DataPath(std::shared_ptr<peer::FabricThread> thread, Handlers handlers, std::shared_ptr<Counters> counters);
  ~DataPath() override = default;
  /// Takes part in the thread's turns. Once.
  void start();
  // To end: on any other thread, or on the one that gives the turns.

  /// Ends all links, and waits until they are gone.
  void end_links();
  /// Runs the tasks that there are.
  void finish_tasks();
  /// Runs all tasks, and leaves the thread.
  void leave();

  peer::FabricThread& thread() { return *thread_; }

  // -- any thread --

  /// Runs `task` on the fabric thread in its next turn, in the order of the calls. Never waits. What it lacks
  /// memory for is its own matter: it throws nothing.
  void run(std::move_only_function<void()> task);
  /// Gives the engine a turn.
  void kick() noexcept;
  /// The link has turns from the next one on, before any task that is handed over later. Until end_links().
  void add(std::shared_ptr<Link> link);
  /// What has ended, in order; how many. Waits for the first at most `longest`.
  std::size_t take(std::span<Completion> out, Duration longest);

  // -- the fabric thread: in tasks and upcalls --

  fabric::Fabric& fabric() { return thread_->fabric(); }
  /// The link takes no more operations, and is over a little later: what was said last may still arrive, and
  /// what has come last is acknowledged. `at_once`: it is beyond that. For a link that has failed and waits
  /// to hear why, this is the word.
  void end(Link& link, Error cause, bool at_once = false);

  // -- any thread; they wait for the fabric thread --

  Capabilities capabilities();
  Result<void> add(const std::shared_ptr<RegionState>& region);
  /// Needs no memory.
  void remove(RegionState& region) noexcept;
  Result<RemoteMemory> grant(RegionState& region, Link& link, const GrantOptions& options);
  Result<void> revoke(RegionState& region, const Link& link);

 private:
  struct Ending {
    Error cause;
    bool at_once = false;
    peer::LastTurns last_turns = {};
    /// The queue pair failed. Until then the peer may say on the control plane why, or that it has heard what
    /// we refused.
    std::optional<Time> word_until = std::nullopt;
    bool is_explained = false;  ///< what the peer says changes nothing
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
  const std::shared_ptr<Counters> counters_;  ///< a region may end beside the endpoint

  std::mutex tasks_mutex_;
  std::vector<std::move_only_function<void()>> tasks_;
  std::map<ConnectionId, Entry> added_;  ///< not in links_ yet
  RegionState* removed_ = nullptr;       ///< a list of those that are to end
  std::condition_variable some_removed_;
  bool has_left_ = false;
  std::atomic<bool> kicked_ = false;

  std::mutex taken_mutex_;
  std::condition_variable some_;
  std::deque<std::pair<std::shared_ptr<Link>, Completion>> ended_;  // for take()

  // The fabric thread's.
  std::map<ConnectionId, Entry> links_;
  std::map<const RegionState*, std::shared_ptr<RegionState>> regions_;
  std::optional<std::promise<void>> stopping_;  ///< until no link is left
  // Of one turn of one link; here, because to make them anew costs more than a turn without work.
  std::array<fabric::Completion, 64> polled_;
  std::array<Completion, 64> completions_;
};

}  // namespace rdmc::unicast
