// The messages between a process of a run and rdmc_run, as values, and their encoding (run_link.proto).
// Decoding checks all bounds that the other side must keep. Stateless; any thread may call any function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "lib/replica/layout.hpp"
#include "lib/replica/send_difference.hpp"

namespace rdmc::replica {

using Bytes = std::vector<std::byte>;

/// The number of an event. The first event of a run has the number 1.
enum class EventNumber : std::uint64_t {};
constexpr EventNumber next(EventNumber number) {
  return EventNumber{value_of(number) + 1};
}

/// The protocol version. It increases when a message changes in a way that an older program would
/// misunderstand.
inline constexpr std::uint32_t kRunVersion = 4;
/// The service of rdmc_run to which processes open a channel.
inline constexpr const char* kRunService = "run";
/// The maximum length of a cause, in bytes. Longer causes are cut.
inline constexpr std::size_t kMostCauseBytes = 1024;
/// The length of the longest message on a connection of the run. It bounds the memory that a faulty process
/// can use at another one.
inline constexpr std::uint32_t kMostRunMessageBytes = 2 * 1024 * 1024;
/// The exit codes with which a program can be aborted.
inline constexpr int kLeastAbortCode = 1, kMostAbortCode = 123;

/// The greeting of a process.
struct Join {
  std::string run;
  ProcessId process{};
  std::uint32_t pid = 0;
  Address address;
  /// The number of the event Recovering of which this process is the result. 0 if rdmc_run has started it.
  EventNumber recovery{};
  EventNumber last_event{};  ///< the last event that the process knows from its parent

  friend bool operator==(const Join&, const Join&) = default;
};

/// What a process has sent in its life. rdmc_run prints the sums.
struct RunCounters {
  std::uint64_t messages = 0, acknowledgements = 0, syncs = 0, connections = 0;
  std::uint64_t uncompared = 0;  ///< messages that were not compared with those of the other replicas

  friend bool operator==(const RunCounters&, const RunCounters&) = default;
};
/// The program has ended its part at this process.
struct Done {
  friend bool operator==(const Done&, const Done&) = default;
};
/// The process has ended its Job in order.
struct Finished {
  RunCounters counters;

  friend bool operator==(const Finished&, const Finished&) = default;
};
struct Abort {
  int code = kLeastAbortCode;

  friend bool operator==(const Abort&, const Abort&) = default;
};
/// The number of a ForkRequest. It increases in a run.
enum class ForkNumber : std::uint64_t {};
/// The process can be forked now. It waits for the event Recovering.
struct ForkReady {
  ForkNumber request{};

  friend bool operator==(const ForkReady&, const ForkReady&) = default;
};
/// The process cannot be forked.
struct ForkRefused {
  ForkNumber request{};
  std::string reason;
  bool is_final = false;  ///< later requests will be refused, too

  friend bool operator==(const ForkRefused&, const ForkRefused&) = default;
};
/// The process was forked. It neither reads its standard input nor writes to its standard output before it
/// gets ForkNoted. So rdmc_run knows where in these streams the new process begins.
struct Forked {
  ForkNumber request{};

  friend bool operator==(const Forked&, const Forked&) = default;
};
/// SendDifference: the replicas of the rank of this process have not sent a message alike.
using FromProcess = std::variant<Done, Finished, Abort, ForkReady, ForkRefused, Forked, SendDifference>;

struct Started {
  EventNumber number{};  ///< `addresses` are as they were after this event
  /// The control address of each process, or nullopt if it is dead. The index is the ProcessId.
  std::vector<std::optional<Address>> addresses;

  friend bool operator==(const Started&, const Started&) = default;
};

/// A process has died. It sends nothing more.
struct Died {
  ProcessId process{};
  std::string cause;

  friend bool operator==(const Died&, const Died&) = default;
};
/// A process has joined after the start, in place of a dead one with the same number.
struct Joined {
  ProcessId process{};
  Address address;

  friend bool operator==(const Joined&, const Joined&) = default;
};
/// The process `parent` will be forked, and the new process takes the place of `process`, which is dead. From
/// now on, `process` counts as living. If this fails, the event Died for `process` comes again.
struct Recovering {
  ProcessId process{}, parent{};

  friend bool operator==(const Recovering&, const Recovering&) = default;
};
/// The whole run ends with this exit code.
struct Aborted {
  int code = 0;

  friend bool operator==(const Aborted&, const Aborted&) = default;
};
/// The program has ended its part at each process that is not dead. So no process needs another one any more.
struct AllDone {
  friend bool operator==(const AllDone&, const AllDone&) = default;
};
using RunEvent = std::variant<Died, Joined, Aborted, AllDone, Recovering>;

struct NumberedEvent {
  EventNumber number{};
  RunEvent event;

  friend bool operator==(const NumberedEvent&, const NumberedEvent&) = default;
};
/// The answer to Finished.
struct Noted {
  friend bool operator==(const Noted&, const Noted&) = default;
};
/// The process should get ready to be forked, so that the new process takes the place of `process`. The
/// descriptors for the new process are on the descriptor socket (descriptor_socket.hpp).
struct ForkRequest {
  ForkNumber request{};
  ProcessId process{};

  friend bool operator==(const ForkRequest&, const ForkRequest&) = default;
};
/// The answer to Forked.
struct ForkNoted {
  ForkNumber request{};

  friend bool operator==(const ForkNoted&, const ForkNoted&) = default;
};
using ToProcess = std::variant<Started, NumberedEvent, Noted, ForkRequest, ForkNoted>;

Bytes encode(const Join& join);
Bytes encode(const FromProcess& message);
Bytes encode(const ToProcess& message);

// The errors of these functions are protocol_error if the bytes are not such a message or exceed a bound, and
// version_mismatch. `layout` is the run's layout: a message that names a process outside of it, or that lists
// another number of processes, exceeds a bound.
Result<Join> decode_join(std::span<const std::byte> bytes, const Layout& layout);
Result<FromProcess> decode_from_process(std::span<const std::byte> bytes);
Result<ToProcess> decode_to_process(std::span<const std::byte> bytes, const Layout& layout);

}  // namespace rdmc::replica
