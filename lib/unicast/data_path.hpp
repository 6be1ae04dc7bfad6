// The part of an endpoint that lives on a fabric thread: its links and the memory that peers are let into,
// with their turns on the engine. Others hand it tasks, which it runs in its next turn and which never wait
// for room. Its owner calls end_links() and leave() before it
// lets go of it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "controlplane/peer/fabric_thread.hpp"
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

/// The inside of a Region: the engine's, but for what never changes.
struct RegionState {
  const std::span<std::byte> memory;
  const RemoteAccess access;
  const std::weak_ptr<DataPath> data_path;
  std::unique_ptr<fabric::MemoryRegion> pinned = nullptr;  ///< for our own operations
  std::map<ConnectionId, std::unique_ptr<fabric::MemoryRegion>> grants = {};
};

class DataPath final : private engine::Agent, public std::enable_shared_from_this<DataPath> {
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

  /// Runs `task` on the fabric thread in its next turn, in the order of the calls. Never waits.
  void run(std::move_only_function<void()> task);
  /// Gives the engine a turn.
  void kick();
  /// What has ended, in order; how many. Waits for the first at most `longest`.
  std::size_t take(std::span<Completion> out, Duration longest);

  // -- the fabric thread: in tasks and upcalls --

  /// An upcall or a task is what calls.
  bool is_in_turn() const { return is_in_turn_; }

  fabric::Fabric& fabric() { return thread_->fabric(); }
  void add(std::shared_ptr<Link> link);
  /// The link takes no more operations, and is over a little later: what was said last may still arrive, and
  /// what has come last is acknowledged. `at_once`: it is beyond that. A link that has failed and waits to
  /// hear why waits no longer.
  void end(Link& link, const Error& cause, bool at_once = false);

  // -- any thread; they wait for the fabric thread --

  Result<void> add(const std::shared_ptr<RegionState>& region);
  void remove(const std::shared_ptr<RegionState>& region);
  Result<RemoteMemory> grant(RegionState& region, Link& link, KeyScope widest);
  Result<void> revoke(RegionState& region, const Link& link);

 private:
  struct Ending {
    Error cause;
    bool at_once = false;
    int turns = 0;
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
  std::size_t run_tasks();
  std::size_t turn(Entry& entry, Time now);
  void on_fault(Entry& entry, const Link::Fault& fault, Time now);
  bool may_finish(const Entry& entry, std::size_t done, Time now) const;
  void finish(const Entry& entry);
  void deliver(const std::shared_ptr<Link>& link, std::span<const Completion> completions);
  void count(const Completion& completion);
  bool is_ours(const Link& link) const;
  void end_region(RegionState& region);

  const std::shared_ptr<peer::FabricThread> thread_;
  const Handlers handlers_;
  const std::shared_ptr<Counters> counters_;  ///< a region may end beside the endpoint

  std::mutex tasks_mutex_;
  std::vector<std::move_only_function<void()>> tasks_;
  std::atomic<bool> kicked_ = false;

  std::mutex taken_mutex_;
  std::condition_variable some_;
  std::deque<std::pair<std::shared_ptr<Link>, Completion>> ended_;  // for take()

  // The fabric thread's.
  std::map<ConnectionId, Entry> links_;
  std::set<std::shared_ptr<RegionState>> regions_;
  std::optional<std::promise<void>> stopping_;  ///< until no link is left
  bool is_stopping_ = false;
  bool is_in_turn_ = false;
};

}  // namespace rdmc::unicast
