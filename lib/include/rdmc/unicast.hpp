// Reliable messages and one-sided operations between two processes, for programs that need neither sockets
// nor groups. The operations are send, receive, write, read, compare-and-swap and fetch-and-add. They run
// over any fabric. The model is that of verbs, with fewer objects: an Endpoint has connections, a Connection
// takes operations, and each operation has one completion. Each peer gets its own key to a region of memory,
// and each key can be revoked alone (the permission switch of Mu: Aguilera et al., OSDI 2020).
//
// Any thread may call any function, except where a function says otherwise. Upcalls run on the fabric thread,
// one at a time for the whole endpoint. They may call functions of the endpoint, and must not block. The
// memory of an operation must not be written or freed before its completion.
//
// The control loop sometimes waits for the fabric thread. So an upcall must not wait for the control loop. It
// must not make or end an endpoint, call listen() or the connect() that waits, make or end a membership or a
// group of one, or call Membership::counters(). An upcall of a membership runs on the control loop. It must
// not call the connect() that waits; it may call all other functions here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rdmc/certificates.hpp>
#include <rdmc/context.hpp>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/fabric/work_status.hpp"

namespace rdmc {

namespace unicast {
class Link;
class DataPath;
class Introductions;
struct RegionState;
}  // namespace unicast

using fabric::WorkKind;
using fabric::WorkStatus;

/// The number of a connection, unique among all connections that an endpoint ever has.
enum class ConnectionId : std::uint64_t {};

/// The end of one operation. If the peer refuses an operation (remote_access, remote_invalid_request) and the
/// packet with the refusal is lost, the software fabric repeats the refusal. An RDMA NIC does not, because a
/// queue pair in the error state drops what arrives (IBTA vol. 1, 10.3.1). The status is then retry_exceeded.
struct Completion {
  ConnectionId connection{};
  std::uint64_t work_id = 0;  ///< the number that the application gave to the operation
  WorkKind kind = WorkKind::send;
  WorkStatus status = WorkStatus::success;
  /// At the receiver, the length of the message or of the write with immediate. Otherwise 0.
  std::uint32_t byte_count = 0;
  std::optional<std::uint32_t> immediate;  ///< only for a receive
  std::uint64_t original = 0;              ///< for an atomic operation: the value before it
};

/// A peer's memory that this process may access. The peer's Region::grant() returned it, and the peer has
/// sent it to this process, for example as the bytes of encode().
struct RemoteMemory {
  static constexpr std::size_t kEncodedBytes = 20;

  std::uint64_t address = 0;
  std::uint64_t length = 0;
  RemoteKey key{};

  /// Returns the fields as bytes, to be sent to the peer.
  std::array<std::byte, kEncodedBytes> encode() const;
  /// Errors: protocol_error if there are not exactly kEncodedBytes bytes.
  static Result<RemoteMemory> decode(std::span<const std::byte> bytes);
  friend bool operator==(const RemoteMemory&, const RemoteMemory&) = default;
};

/// The process at the other end of a connection.
struct PeerInfo {
  std::string name;  ///< the name of its endpoint
  Address address;   ///< the address of its control connection
  /// The bytes that its application gave in Endpoint::Target::private_data or EndpointOptions::private_data.
  std::vector<std::byte> private_data;
};

/// What every connection of an endpoint can do. This depends on the fabric and its device.
struct Capabilities {
  /// True if compare_and_swap(), fetch_and_add() and regions with RemoteAccess::atomic are available.
  bool atomics = true;
  bool keys_per_connection = true;              ///< KeyScope::connection is available
  std::uint32_t largest_message = 0x7FFF'FFFF;  ///< the most bytes of one operation
};

/// A handle of a connection. All copies name the same connection. A handle may outlive the connection and the
/// endpoint; operations then fail with peer_failed. Any thread may call any function.
///
/// Errors of all operations: would_block if the endpoint's depth is used up (take completions first);
/// peer_failed if the connection has ended; invalid_argument if the operation is longer than
/// Capabilities::largest_message, exceeds the RemoteMemory, or is an atomic operation at an address that is
/// not a multiple of 8; unsupported if it is an atomic operation and the fabric has none. An operation that
/// was refused with an error has no completion.
class Connection {
 public:
  /// A handle without a connection. Every operation fails with peer_failed.
  Connection() = default;

  /// Returns the id of the connection, or 0 for a handle without one.
  ConnectionId id() const;
  /// Returns the process at the other end. The reference is valid as long as this handle.
  const PeerInfo& peer() const;
  /// True if the connection accepts operations.
  bool is_open() const;

  /// Sends a message into the oldest unused receive of the peer. `work_id` is returned in the completion.
  /// `immediate` is returned in the peer's completion.
  Result<void> send(std::span<const std::byte> bytes, std::uint64_t work_id,
                    std::optional<std::uint32_t> immediate = {}) const;
  /// Sends a copy of `bytes`, so the caller may change `bytes` at once. More errors than those of all
  /// operations: invalid_argument for more than Endpoint::kMostCopiedBytes; would_block if
  /// Endpoint::kMostCopies copies are in flight on this connection, even if its depth is larger. A copy is no
  /// longer in flight when its operation has ended, even before the completion is taken.
  Result<void> send_copy(std::span<const std::byte> bytes, std::uint64_t work_id,
                         std::optional<std::uint32_t> immediate = {}) const;
  /// Gives memory for one message of the peer. An empty receive serves a write with immediate. A sender whose
  /// peer has posted no receive waits for its own EndpointOptions::receive_patience.
  Result<void> post_receive(std::span<std::byte> bytes, std::uint64_t work_id) const;
  /// Writes `bytes` into the peer's memory `to`, from byte `offset` on.
  Result<void> write(std::span<const std::byte> bytes, const RemoteMemory& to, std::uint64_t offset,
                     std::uint64_t work_id) const;
  /// Like write(), and also uses one receive that the peer has posted. The completion of that receive has
  /// `immediate`.
  Result<void> write_with_immediate(std::span<const std::byte> bytes, const RemoteMemory& to,
                                    std::uint64_t offset, std::uint32_t immediate,
                                    std::uint64_t work_id) const;
  /// Reads from the peer's memory `from`, from byte `offset` on, into `bytes`. An operation that is posted
  /// after a read may be executed before the read (IBTA vol. 1, table 79). If the order matters, wait for the
  /// completion of the read.
  Result<void> read(std::span<std::byte> bytes, const RemoteMemory& from, std::uint64_t offset,
                    std::uint64_t work_id) const;
  /// Both atomic operations change 8 bytes of the peer's memory, in the peer's byte order. compare_and_swap()
  /// writes `swap` if the value is `expected`. Completion::original is the value before the operation.
  Result<void> compare_and_swap(const RemoteMemory& at, std::uint64_t offset, std::uint64_t expected,
                                std::uint64_t swap, std::uint64_t work_id) const;
  /// Adds `add` to the value, modulo 2^64.
  Result<void> fetch_and_add(const RemoteMemory& at, std::uint64_t offset, std::uint64_t add,
                             std::uint64_t work_id) const;

  /// Begins to end the connection. Operations that are not completed by then are flushed. disconnected() is
  /// called with Errc::cancelled on both sides.
  void disconnect() const;

 private:
  friend class Endpoint;
  friend class Region;
  friend class unicast::Introductions;
  explicit Connection(std::shared_ptr<unicast::Link> link) : link_(std::move(link)) {}
  std::shared_ptr<unicast::Link> link_;
};

/// The connections on which a key is valid.
enum class KeyScope {
  connection,  ///< only the connection for which it was granted
  device,      ///< all connections of the same device, for any peer that learns the key
};

struct GrantOptions {
  /// What the key permits. It must not exceed what the region permits, which is the default.
  std::optional<RemoteAccess> access = {};
  /// The widest scope that the key may have. The library makes a key for one connection if the fabric can.
  KeyScope widest = KeyScope::connection;
};

/// Memory that peers may be allowed to access. When the region is destroyed, all its keys end. After that, no
/// packet, however late, changes a byte of the memory.
/// The functions, the destructor and the assignment wait for the fabric thread. If the endpoint has no thread
/// of its own, only the thread that polls may call grant() and revoke(). If another thread destroys the
/// region, it ends in the next turn, and its memory must exist until then.
class Region {
 public:
  /// A handle without a region.
  Region() = default;
  Region(Region&&) noexcept = default;
  /// Ends the region of this handle, and takes that of `other`.
  Region& operator=(Region&& other) noexcept;
  ~Region();

  /// Returns the memory of the region; empty for a handle without one.
  std::span<std::byte> bytes() const;
  /// Allows the peer of this connection to access the region, and returns the key. The key is valid on no
  /// other connection. A connection can have one key to a region. Keys of different connections may permit
  /// different things.
  /// The verbs fabric cannot restrict a key to one connection. There the call fails, unless `options.widest`
  /// permits a key that is valid on any connection of the device. Even then, each grant has a different key,
  /// which can be revoked alone.
  /// Errors: already_exists if the connection has a key (revoke it first); peer_failed if the connection has
  /// ended; unsupported if the fabric cannot make a key of this scope; invalid_argument if the connection
  /// belongs to another endpoint, or if the access exceeds that of the region or is none; resource_limit.
  Result<RemoteMemory> grant(const Connection& connection, const GrantOptions& options = {});
  /// Revokes the key of this connection's peer. After the return, no packet of that peer, however late,
  /// changes a byte of the memory. The keys of other peers stay valid. If there is no key, the call has no
  /// effect and succeeds.
  /// An operation of the peer with the old key fails there with WorkStatus::remote_access, and ends the
  /// connection for both sides, even if the peer has a new key already. So inform the peer before you revoke
  /// its key. The end of a connection also revokes its keys.
  /// Errors: invalid_argument, without any effect, if the endpoint has no thread of its own and a thread
  /// calls that does not poll.
  Result<void> revoke(const Connection& connection);

 private:
  friend class Endpoint;
  explicit Region(std::shared_ptr<unicast::RegionState> state) : state_(std::move(state)) {}
  std::shared_ptr<unicast::RegionState> state_;
};

/// Give exactly one of `key_file`, `certificates` and `insecure`.
struct EndpointOptions {
  /// The name to which other endpoints connect, 1 to 255 bytes. Endpoints that communicate often have the
  /// same name. It must be unique among the listening endpoints that share a Context and the same key or
  /// certificates.
  std::string name;
  /// The local address of the network to use. Its port is the port of the control connections; 0 means any
  /// free port.
  Address address = Address::ipv4(127, 0, 0, 1, 0);
  std::string fabric = "auto";  ///< "auto", "udp", "shm", "verbs" or "dpdk"
  std::string device = {};      ///< for fabrics that need a device (dpdk)
  std::string key_file = {};
  Certificates certificates = {};
  /// If true, the endpoint uses no key and has no protection.
  bool insecure = false;
  /// If true, all that leaves this host is encrypted with AES-256-GCM. Both ends must set it. Must not be
  /// combined with `insecure`.
  bool encrypt = false;
  /// The Context whose fabric thread and control connections the endpoint uses. If null, the Context of the
  /// process.
  std::shared_ptr<Context> context = nullptr;
  /// If false, the thread that creates the endpoint must call poll(), and must destroy the endpoint.
  bool own_thread = true;
  /// If true, the fabric thread never sleeps while it waits. It then needs a CPU core of its own.
  bool busy_poll = false;
  /// The most operations of one connection whose completions the application has not taken: all kinds except
  /// receives (send_depth), and receives (receive_depth). From 1 to 65,536.
  std::uint32_t send_depth = 256, receive_depth = 512;
  /// How long a sender waits for a peer that has posted no receive. After that, the operation fails with
  /// rnr_retry_exceeded. 0 means no limit. The longest value is one year.
  Duration receive_patience = seconds(10);
  /// The most connections at a time. A further peer is refused with resource_limit.
  std::uint32_t most_connections = 1024;
  /// Bytes that peers get when a connection is made (PeerInfo::private_data). At most 4096 bytes.
  std::vector<std::byte> private_data = {};
};

/// The upcalls of an endpoint. Any of them may be empty. If one throws std::bad_alloc, it is not repeated.
/// Its connection ends with resource_limit, and the other connections go on. Completions that were given to
/// such a completed() count as completions_dropped. No other exception may leave an upcall.
struct EndpointCallbacks {
  /// A peer that holds the key wants to connect. If this returns an error, the peer is refused, and its
  /// connect() fails with that error. If empty, every peer that holds the key may connect.
  std::function<Result<void>(const PeerInfo&)> accept;
  /// A peer has connected to this endpoint. Post receives here, because the peer may send at once.
  std::function<void(const Connection&)> connected;
  /// A connection that connected() or a successful connect() gave has ended. Called once, after the
  /// completions of all its operations were handed out, or were queued for poll() if there is no completed().
  /// The cause:
  ///   cancelled          one side has ended it in order
  ///   permission_denied  an operation of this side named memory that the peer does not allow it to access
  ///   peer_failed        the peer has died, is unreachable, has posted no receive, or has named memory
  ///                      that this side does not allow it to access
  ///   protocol_error     the peer has broken the protocol, or a message was longer than its receive. A NIC
  ///                      may report only remote_operational for this; the cause is then peer_failed
  ///   resource_limit     this process has no memory for it
  ///   any other          the fabric has refused an operation of this side (unsupported: it cannot do that)
  std::function<void(const Connection&, const Error& cause)> disconnected;
  /// Operations have ended. Each call has a batch of completions of one connection. Sends, writes, reads and
  /// atomics of a connection complete in the order of posting, and so do its receives. If empty, poll()
  /// returns the completions.
  std::function<void(std::span<const Completion>)> completed;
};

/// What an endpoint has done so far. The counters only increase.
struct EndpointCounters {
  std::uint64_t connections_made = 0, connections_accepted = 0;
  std::uint64_t peers_refused = 0;  ///< refused: malformed request, too many, or not accepted
  std::uint64_t disconnected = 0;
  std::uint64_t sends = 0, writes = 0, reads = 0, atomics = 0;  ///< of this endpoint, successful
  std::uint64_t receives = 0;        ///< messages and writes with immediate that arrived
  std::uint64_t bytes_received = 0;  ///< in messages and in writes with immediate
  std::uint64_t failed = 0;          ///< operations with another status than success
  std::uint64_t grants = 0, revocations = 0;
  /// Completions lost because memory ran out, in completed() or in the library. Their connection ends then.
  std::uint64_t completions_dropped = 0;
};

class Endpoint {
 public:
  /// The limits of Connection::send_copy(): the longest message, and the most copies in flight on one
  /// connection.
  static constexpr std::size_t kMostCopiedBytes = 4096, kMostCopies = 64;

  /// The endpoint to connect to.
  struct Target {
    std::string host;
    std::uint16_t port = 0;
    std::string name = {};  ///< the name of that endpoint; if empty, this endpoint's own
    /// Bytes that the peer gets with this connection. At most 4096 bytes. If empty,
    /// EndpointOptions::private_data.
    std::vector<std::byte> private_data = {};
  };
  using ConnectDone = std::function<void(Result<Connection>)>;

  /// Makes an endpoint. No peer can connect to it before listen(). Errors: invalid_argument if the options
  /// are not valid, and those of opening the fabric and of reading the key or the certificates.
  static Result<std::unique_ptr<Endpoint>> create(const EndpointOptions& options,
                                                  EndpointCallbacks callbacks = {});
  /// Ends all connections and waits for their end. Their operations are flushed, and all upcalls for this
  /// come before the destructor returns. Must not be called in an upcall of this or any other endpoint or
  /// node on the same fabric thread; an assertion then stops the process.
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// Allows peers to connect from now on. Whatever accept() and connected() use must exist before this call.
  /// Must be called at most once. Errors: invalid_argument if the endpoint listens already or an upcall calls
  /// this, already_exists if the name or the port is in use, and those of listening.
  Result<void> listen();
  /// Returns EndpointOptions::address. After listen() it has the port that was assigned.
  const Address& address() const;
  /// Returns the name of the fabric, for example "udp" or "shm+udp".
  const std::string& fabric_name() const;
  /// Returns what the connections of this endpoint can do.
  const Capabilities& capabilities() const;

  /// Connects to the endpoint `to`, and returns at once. `done` is an upcall with the result. It is called
  /// once, within `timeout` (at most one year). If `done` is empty, connected() reports the connection, and a
  /// failure is not reported. After a connection was lost, connect() makes a new one, on which regions must
  /// be granted again. Throws std::bad_alloc if there is no memory to begin; then `done` is never called.
  /// Errors for `done`: those of reaching the host; peer_failed if no process listens there; authentication;
  /// not_found if there is no endpoint of that name; timed_out; cancelled if this endpoint is being
  /// destroyed; invalid_argument if the name or the private data is too long; resource_limit;
  /// version_mismatch; protocol_error; and any error of the peer's accept().
  void connect(Target to, Duration timeout, ConnectDone done);
  /// Like the connect() above, but waits for the result, for at most `timeout` plus one second. A connection
  /// that comes later ends at once. If the endpoint has no thread of its own, only the thread that polls may
  /// call this, and it gives turns meanwhile. Errors: the same, and invalid_argument if an upcall (also of a
  /// membership) or another thread calls.
  Result<Connection> connect(Target to, Duration timeout);

  /// Registers memory that peers may be allowed to access. `access` is a set of RemoteAccess::write, read and
  /// atomic. The memory must outlive the Region. The Region may outlive the endpoint. Waits for the fabric
  /// thread. Errors: invalid_argument if `access` has other flags or none, or if memory for atomic operations
  /// does not begin at a multiple of 8; unsupported if there are no atomic operations; resource_limit if the
  /// memory cannot be pinned.
  Result<Region> register_memory(std::span<std::byte> memory, RemoteAccess access);

  /// Takes up to out.size() completions, and returns their number. Waits for the first one for at most
  /// `longest`. Must not be called in an upcall. If the endpoint has no thread of its own, this function also
  /// gives its turns, and only the thread that created the endpoint may call it; in any other thread it does
  /// nothing and returns 0. With an empty `out` it gives one turn.
  std::size_t poll(std::span<Completion> out, Duration longest = {});

  /// Returns a descriptor for the application's own event loop (epoll, poll or io_uring), for an endpoint
  /// without a thread of its own. It is readable while the engine has something to do, as Node::descriptor().
  /// When it is readable, call poll() until it returns fewer completions than `out` can hold, because
  /// completions that were not taken do not make it readable. With `completed` there are none to take, and
  /// one call is enough. Watch the descriptor level-triggered. Errors: invalid_argument if the endpoint has a
  /// thread of its own, unsupported if the fabric has no descriptor, resource_limit.
  Result<int> descriptor();

  /// Returns the present counters. Never waits; may be called in an upcall.
  EndpointCounters counters() const;

 private:
  struct State;
  explicit Endpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rdmc
