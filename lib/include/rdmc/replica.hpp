// Rank programs. A rank program consists of `size` ranks that exchange messages. rdmc_run starts the program.
// Each rank can have several replicas. A program with replicas must be send-deterministic (see the guide).
// docs/replication.md is the guide.
//
// The functions follow the message passing interface (MPI), so most of them need no explanation for those who
// know it. Unlike in MPI, a failure is returned as an error and does not end the process.
//
//     auto job = rdmc::replica::Job::start();
//     auto& world = (*job)->world();
//     if (world.rank() == 0) world.send(bytes, 1, tag);
//     if (world.rank() == 1) world.recv(buffer, 0, tag);
//     (*job)->finish();
//
// Threads: only the thread that has called Job::start() may use the Job, its communicators and its requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "dataplane/base/error.hpp"

namespace rdmc::replica {

class JobState;
struct CommunicatorState;

/// Matches a message from any rank, or with any tag, in a receive or a probe.
inline constexpr int kAnySource = -1, kAnyTag = -1;
/// The largest tag of a message. The smallest is 0.
inline constexpr int kMostTag = (1 << 30) - 1;

/// Describes a message that has arrived. For a send, all fields are those of the send's own arguments, and
/// `source` is the rank that has sent.
struct MessageInfo {
  int source = kAnySource;  ///< the sender's rank in the communicator
  int tag = kAnyTag;
  std::size_t bytes = 0;

  friend bool operator==(const MessageInfo&, const MessageInfo&) = default;
};

/// A send or a receive that has begun. Its memory must exist, and must not be changed, until the request is
/// complete. A default-constructed request is empty. A request becomes empty when its completion has been
/// returned. Copies of a request name the same operation; only one of them may be completed.
class Request {
 public:
  Request() = default;
  bool is_empty() const { return number_ == 0; }

 private:
  friend class JobState;
  explicit Request(std::uint64_t number) : number_(number) {}
  std::uint64_t number_ = 0;
};

/// How a reduction combines two values.
enum class Operation : std::uint8_t { sum, product, minimum, maximum, bit_and, bit_or, bit_xor };

/// Combines `count` elements: inout[i] = in[i] (op) inout[i]. `in` has the values of lower ranks.
using Combine = void (*)(const std::byte* in, std::byte* inout, std::size_t count);

namespace detail {
template <typename T, Operation operation>
void combine(const std::byte* in, std::byte* inout, std::size_t count) {
  const auto* from = reinterpret_cast<const T*>(in);
  auto* to = reinterpret_cast<T*>(inout);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (operation == Operation::sum) to[i] = static_cast<T>(from[i] + to[i]);
    if constexpr (operation == Operation::product) to[i] = static_cast<T>(from[i] * to[i]);
    if constexpr (operation == Operation::minimum) to[i] = to[i] < from[i] ? to[i] : from[i];
    if constexpr (operation == Operation::maximum) to[i] = from[i] < to[i] ? to[i] : from[i];
    if constexpr (std::is_integral_v<T>) {
      if constexpr (operation == Operation::bit_and) to[i] = static_cast<T>(from[i] & to[i]);
      if constexpr (operation == Operation::bit_or) to[i] = static_cast<T>(from[i] | to[i]);
      if constexpr (operation == Operation::bit_xor) to[i] = static_cast<T>(from[i] ^ to[i]);
    }
  }
}
}  // namespace detail

/// Returns the function that combines values of type T, or null if T has no such operation.
template <typename T>
constexpr Combine combine_of(Operation operation) {
  switch (operation) {
    case Operation::sum: return detail::combine<T, Operation::sum>;
    case Operation::product: return detail::combine<T, Operation::product>;
    case Operation::minimum: return detail::combine<T, Operation::minimum>;
    case Operation::maximum: return detail::combine<T, Operation::maximum>;
    default: break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (operation == Operation::bit_and) return detail::combine<T, Operation::bit_and>;
    if (operation == Operation::bit_or) return detail::combine<T, Operation::bit_or>;
    if (operation == Operation::bit_xor) return detail::combine<T, Operation::bit_xor>;
  }
  return nullptr;
}

/// An ordered set of ranks that exchange messages. Messages of one communicator never match receives of
/// another one. This class is a handle: copies of it name the same communicator.
///
/// Messages from one rank to another rank, in one communicator, match receives in the order in which they
/// were sent. All functions have these errors, in addition to those that they name: invalid_argument if a
/// rank, a tag or a length is impossible; peer_failed if all replicas of a rank that is needed are dead;
/// cancelled if the job has been finished or aborted, or the communicator has ended; resource_limit. All
/// functions of a Job and of its communicators throw std::bad_alloc if the process has no memory.
///
/// A communicator ends with its last handle. Receives that have not matched a message by then are cancelled.
class Communicator {
 public:
  int rank() const;
  int size() const;

  // -- Point to point. `to` and `from` are ranks of this communicator. --

  /// Begins to send `bytes`. Completes when the memory may be used again. That does not mean that the message
  /// has been received.
  Result<Request> isend(std::span<const std::byte> bytes, int to, int tag);
  /// Begins to receive a message of at most bytes.size() bytes. A longer message completes the request with
  /// invalid_argument, and bytes.size() bytes of it are stored.
  Result<Request> irecv(std::span<std::byte> bytes, int from, int tag);
  Result<void> send(std::span<const std::byte> bytes, int to, int tag);
  Result<MessageInfo> recv(std::span<std::byte> bytes, int from, int tag);
  /// Sends and receives at the same time, so that two ranks can exchange messages without a deadlock.
  Result<MessageInfo> sendrecv(std::span<const std::byte> bytes, int to, int tag, std::span<std::byte> into,
                               int from, int from_tag);
  /// Waits for a message that recv() with these arguments would receive, and describes it.
  Result<MessageInfo> probe(int from, int tag);
  /// Like probe(), but does not wait. Returns nullopt if there is no such message now.
  Result<std::optional<MessageInfo>> iprobe(int from, int tag);

  // -- Collective operations. All ranks of the communicator must call them, in the same order. --

  Result<void> barrier();
  /// Copies `bytes` of `root` to all ranks. The length must be the same at all ranks.
  Result<void> broadcast(std::span<std::byte> bytes, int root);
  /// Each rank gives `mine`. `all` is used only at the root, and gets one part for each rank, in the order of
  /// the ranks. All parts have the same length.
  Result<void> gather(std::span<const std::byte> mine, std::span<std::byte> all, int root);
  /// The opposite of gather().
  Result<void> scatter(std::span<const std::byte> all, std::span<std::byte> mine, int root);
  /// Like gather(), but all ranks get the result.
  Result<void> all_gather(std::span<const std::byte> mine, std::span<std::byte> all);
  /// Part i of `to` goes to rank i. Part i of `from` comes from rank i. All parts have the same length.
  Result<void> all_to_all(std::span<const std::byte> to, std::span<std::byte> from);
  // The same with parts of different lengths. `bytes[i]` is the length of the part of rank i. The parts are
  // stored one after another, without gaps.
  Result<void> gather(std::span<const std::byte> mine, std::span<std::byte> all,
                      std::span<const std::size_t> bytes, int root);
  Result<void> scatter(std::span<const std::byte> all, std::span<const std::size_t> bytes,
                       std::span<std::byte> mine, int root);
  Result<void> all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                          std::span<const std::size_t> bytes);
  Result<void> all_to_all(std::span<const std::byte> to, std::span<const std::size_t> to_bytes,
                          std::span<std::byte> from, std::span<const std::size_t> from_bytes);

  // Reductions. The values of all ranks are combined in the order of the ranks, with the same grouping at
  // each call. So the result of a sum of floating-point numbers is the same in each run and at each replica.
  // `values` is overwritten with the result (reduce: only at the root; elsewhere its content is then
  // undefined). The element sizes are in bytes.

  Result<void> reduce(std::span<std::byte> values, std::size_t element, Combine combine, int root);
  Result<void> all_reduce(std::span<std::byte> values, std::size_t element, Combine combine);
  /// Rank i gets the combined values of the ranks 0 to i.
  Result<void> scan(std::span<std::byte> values, std::size_t element, Combine combine);
  /// Rank i gets the combined values of the ranks 0 to i - 1. The values of rank 0 do not change.
  Result<void> exclusive_scan(std::span<std::byte> values, std::size_t element, Combine combine);
  /// Combines the values of all ranks, and gives part i of the result to rank i. `values` has size() parts of
  /// mine.size() bytes each, and its content is undefined after the call.
  Result<void> reduce_scatter(std::span<std::byte> values, std::span<std::byte> mine, std::size_t element,
                              Combine combine);

  template <typename T, std::size_t Extent>
  Result<void> reduce(std::span<T, Extent> values, Operation operation, int root) {
    return reduce(std::as_writable_bytes(values), sizeof(T), combine_of<T>(operation), root);
  }
  template <typename T, std::size_t Extent>
  Result<void> all_reduce(std::span<T, Extent> values, Operation operation) {
    return all_reduce(std::as_writable_bytes(values), sizeof(T), combine_of<T>(operation));
  }
  template <typename T, std::size_t Extent>
  Result<void> scan(std::span<T, Extent> values, Operation operation) {
    return scan(std::as_writable_bytes(values), sizeof(T), combine_of<T>(operation));
  }

  // -- New communicators. These functions are collective operations too. --

  /// A communicator of the same ranks whose messages are separate from those of this one.
  Result<Communicator> dup();
  /// Makes one communicator for each value of `color`. The ranks are ordered by `key`, and those with the
  /// same key by their rank here. A rank that gives no color gets no communicator.
  Result<std::optional<Communicator>> split(std::optional<int> color, int key);
  /// A communicator of the given ranks of this one, in the given order. All ranks must give the same list.
  /// A rank that is not in the list gets no communicator.
  Result<std::optional<Communicator>> create(std::span<const int> ranks);

 private:
  friend class JobState;
  explicit Communicator(std::shared_ptr<CommunicatorState> state) : state_(std::move(state)) {}
  std::shared_ptr<CommunicatorState> state_;
};

/// What this process has sent and received so far. The counters only increase.
struct JobCounters {
  std::uint64_t messages = 0;          ///< messages that this process has sent to other processes
  std::uint64_t acknowledgements = 0;  ///< records that acknowledge messages to replicas of their sender
  std::uint64_t syncs = 0;             ///< records that pass on a decision of another replica
  std::uint64_t connections = 0;       ///< processes to which this process has connected
  std::uint64_t unexpected = 0;        ///< messages that arrived before a receive for them was posted
  std::uint64_t bytes_sent = 0, bytes_received = 0;  ///< payload, without what was sent to itself
};

/// This process's part in a rank program. A process that the program forks must not use the Job. There, the
/// functions return invalid_argument, abort() does nothing, and the destructor only forgets the Job.
class Job {
 public:
  /// Must be called at the beginning of the program, on the thread that will use the Job. A process can have
  /// one Job. A program that rdmc_run has not started gets a Job with one rank. Errors: invalid_argument if
  /// the environment that rdmc_run has set is damaged, unsupported if there is no such replication
  /// protocol or if a rank has more than 64 replicas, already_exists if this process has or had a Job,
  /// timed_out or peer_failed if rdmc_run does not answer, and the errors of opening the fabric.
  static Result<std::unique_ptr<Job>> start();
  /// Ends the Job. Unless finish() has succeeded, rdmc_run considers this replica as failed.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// The communicator of all ranks, and the one of this rank alone.
  Communicator& world();
  Communicator& self();

  /// The number of this replica, from 0. For messages to people only: what a program sends must not depend on
  /// this number.
  int replica() const;

  /// Waits until the request is complete. The error of the operation is the error of this function. An empty
  /// request is complete at once, with the source kAnySource.
  Result<MessageInfo> wait(Request& request);
  /// Waits for all requests. If operations have failed, returns the error of the first one of them.
  Result<void> wait_all(std::span<Request> requests);
  struct Completed {
    std::size_t index = 0;  ///< the request that is complete
    MessageInfo info;
  };
  /// Waits for one of the requests, and returns it. Returns nullopt if all requests are empty. If the
  /// operation has failed, its request becomes empty, and its error is returned. If the Job has been aborted,
  /// the requests stay as they are. The first complete request in the list is returned.
  Result<std::optional<Completed>> wait_any(std::span<Request> requests);
  /// Completes the request if that is possible without waiting, and returns nullopt otherwise.
  Result<std::optional<MessageInfo>> test(Request& request);
  Result<std::optional<Completed>> test_any(std::span<Request> requests);

  /// Gives the library time to work. A program that computes for long without calling any function does not
  /// need this function, because a thread of the library then does the necessary work.
  void progress();

  /// Ends the program in order. All ranks must call it, and it waits until they have. After that, only the
  /// destructor may be called. Requests that are not complete are cancelled.
  Result<void> finish();
  /// Ends the whole program at once: rdmc_run ends all ranks, and exits with `code` (1 to 123).
  void abort(int code);

  JobCounters counters() const;

 private:
  explicit Job(std::unique_ptr<JobState> state);
  std::unique_ptr<JobState> state_;
};

}  // namespace rdmc::replica
