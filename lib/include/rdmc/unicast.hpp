// Reliable messages and one-sided operations between two processes, for programs that need neither sockets
// nor groups. The operations are send, receive, write, read, compare-and-swap and fetch-and-add. They run
// over any fabric. The model is the same as that of verbs, but with fewer objects: an Endpoint has
// connections, a Connection takes operations, and each operation has one completion. Each peer gets its own
// key to a region of memory, and each key can be revoked separately. This is the permission switch of Mu
// (Aguilera et al., OSDI 2020).
//
// Any thread may call any function, except where a function says otherwise. Upcalls run on the fabric thread,
// one at a time for the whole endpoint. They may call functions of the endpoint, and must not block. The
// memory of an operation must not be written or freed before its completion.
//
// The control loop sometimes waits for the fabric thread. So an upcall must not wait for the control loop. It
// must not do any of the following:
//   - make or destroy an Endpoint;
//   - call listen() or the blocking connect();
//   - make or destroy a membership or a group of a membership;
//   - call Membership::counters().
// Upcalls of a membership run on the control loop. They must not call the blocking connect(), but may call
// all other functions of this file.
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
/// packet with the refusal is lost, the software fabric repeats the refusal. An RDMA NIC does not repeat it,
/// because its queue pair is in the error state then and drops all packets that arrive (IBTA vol. 1, 10.3.1).
/// In that case the status is retry_exceeded.
struct Completion {
  ConnectionId connection{};
  std::uint64_t work_id = 0;  ///< the number that the application gave to the operation
  WorkKind kind = WorkKind::send;
  WorkStatus status = WorkStatus::success;
  /// For a receive, the length of the message or of the write with immediate. For all other operations, 0.
  std::uint32_t byte_count = 0;
  std::optional<std::uint32_t> immediate;  ///< only for a receive
  std::uint64_t original = 0;              ///< for an atomic operation, the value before the operation
};

/// A peer's memory that this process may access. The peer gets this value from Region::grant(), and sends it
/// to this process, for example as the bytes of encode().
struct RemoteMemory {
  static constexpr std::size_t kEncodedBytes = 20;

  std::uint64_t address = 0;
  std::uint64_t length = 0;
  RemoteKey key{};

  /// Returns the fields as bytes that can be sent to the peer.
  std::array<std::byte, kEncodedBytes> encode() const;
  /// Converts the bytes of encode() back. Errors: protocol_error if there are not exactly kEncodedBytes
  /// bytes.
  static Result<RemoteMemory> decode(std::span<const std::byte> bytes);
  friend bool operator==(const RemoteMemory&, const RemoteMemory&) = default;
};

/// The process at the other end of a connection.
struct PeerInfo {
  std::string name;  ///< the name of the peer's endpoint
  Address address;   ///< the peer's address on the control connection
  /// The bytes that the peer's application gave in Endpoint::Target::private_data or
  /// EndpointOptions::private_data.
  std::vector<std::byte> private_data;
};

/// The features that all connections of an endpoint have. They depend on the fabric and its device.
struct Capabilities {
  /// True if compare_and_swap(), fetch_and_add() and regions with RemoteAccess::atomic are available.
  bool atomics = true;
  bool keys_per_connection = true;              ///< true if KeyScope::connection is available
  std::uint32_t largest_message = 0x7FFF'FFFF;  ///< the maximum number of bytes of one operation
};

/// A handle of a connection. All copies name the same connection. A handle may outlive the connection and the
/// endpoint; operations then fail with peer_failed. Any thread may call any function.
///
/// Errors of all operations: would_block if the connection already has as many operations as the endpoint's
/// send_depth or receive_depth permits (take completions first); peer_failed if the connection has ended;
/// invalid_argument if the operation is longer than Capabilities::largest_message, exceeds the RemoteMemory,
/// or is an atomic operation at an address that is not a multiple of 8; unsupported if it is an atomic
/// operation and the fabric has no atomic operations. An operation that was refused with an error has no
/// completion.
class Connection {
 public:
  /// Makes a handle without a connection. Every operation on it fails with peer_failed.
  Connection() = default;

  /// Returns the id of the connection, or 0 if this handle has no connection.
  ConnectionId id() const;
  /// Returns the description of the process at the other end. The reference is valid as long as this handle
  /// exists.
  const PeerInfo& peer() const;
  /// True if the connection accepts operations.
  bool is_open() const;

  /// Sends a message into the oldest unused receive of the peer. The completion of this operation has
  /// `work_id`. The completion of the peer's receive has `immediate`.
  Result<void> send(std::span<const std::byte> bytes, std::uint64_t work_id,
                    std::optional<std::uint32_t> immediate = {}) const;
  /// Like send(), but sends a copy of `bytes`. So the caller may change `bytes` as soon as this function has
  /// returned. Errors in addition to those of all operations: invalid_argument if there are more than
  /// Endpoint::kMostCopiedBytes bytes; would_block if Endpoint::kMostCopies copies are in flight on this
  /// connection, even if its depth is larger. A copy stops being in flight when its operation ends, even if
  /// the application has not taken the completion yet.
  Result<void> send_copy(std::span<const std::byte> bytes, std::uint64_t work_id,
                         std::optional<std::uint32_t> immediate = {}) const;
  /// Gives memory for one message of the peer. An empty receive is enough for a write with immediate. If this
  /// side has posted no receive, the peer's operation waits. The EndpointOptions::receive_patience of the
  /// peer's endpoint limits that time.
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
  /// Writes `swap` into 8 bytes of the peer's memory `at`, from byte `offset` on, if their value is
  /// `expected`. The value is a number in the peer's byte order. Completion::original is the value before the
  /// operation.
  Result<void> compare_and_swap(const RemoteMemory& at, std::uint64_t offset, std::uint64_t expected,
                                std::uint64_t swap, std::uint64_t work_id) const;
  /// Adds `add`, modulo 2^64, to 8 bytes of the peer's memory `at`, from byte `offset` on. Their value is a
  /// number in the peer's byte order. Completion::original is the value before the operation.
  Result<void> fetch_and_add(const RemoteMemory& at, std::uint64_t offset, std::uint64_t add,
                             std::uint64_t work_id) const;

  /// Begins to end the connection, and returns at once. Operations that are not completed when the connection
  /// ends are flushed. disconnected() is called with Errc::cancelled on both sides.
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
  /// The kinds of access that the key permits. The region must permit all of them. Without a value, the key
  /// permits all that the region permits.
  std::optional<RemoteAccess> access = {};
  /// The widest scope that the key may have. If the fabric can make keys for one connection, the library
  /// makes such a key.
  KeyScope widest = KeyScope::connection;
};

/// Memory to which peers can be given access. When the region is destroyed, all its keys end. After that, no
/// packet, however late, changes a byte of the memory.
/// The functions, the destructor and the assignment wait for the fabric thread. If the endpoint has no thread
/// of its own, only the thread that calls poll() may call grant() and revoke(). If another thread then
/// destroys the region, the region ends in the endpoint's next turn, and its memory must exist until that
/// turn.
class Region {
 public:
  /// Makes a handle without a region.
  Region() = default;
  Region(Region&&) noexcept = default;
  /// Ends the region of this handle, and takes over the region of `other`.
  Region& operator=(Region&& other) noexcept;
  ~Region();

  /// Returns the memory of the region, or an empty span if this handle has no region.
  std::span<std::byte> bytes() const;
  /// Allows the peer of this connection to access the region, and returns the key. The key is valid on no
  /// other connection. A connection can have one key to a region. Keys of different connections may permit
  /// different things.
  /// The verbs fabric cannot restrict a key to one connection. With that fabric, the call fails unless
  /// `options.widest` permits a key that is valid on any connection of the device. Even then, each grant has
  /// a different key, which can be revoked separately.
  /// Errors: already_exists if the connection has a key (revoke it first); peer_failed if the connection has
  /// ended; unsupported if the fabric cannot make a key of this scope; invalid_argument if the connection
  /// belongs to another endpoint, or if `options.access` is empty or has an access that the region does not
  /// permit; resource_limit.
  Result<RemoteMemory> grant(const Connection& connection, const GrantOptions& options = {});
  /// Revokes the key of this connection's peer. After the call has returned, no packet of that peer, however
  /// late, changes a byte of the memory. The keys of other peers stay valid. If there is no key, the call has
  /// no effect and succeeds.
  /// If the peer uses the old key afterwards, its operation fails with WorkStatus::remote_access, and the
  /// connection ends for both sides. This happens even if the peer already has a new key. So inform the peer
  /// before you revoke its key. The end of a connection also revokes its keys.
  /// Errors: invalid_argument, without any effect, if the endpoint has no thread of its own and the caller is
  /// not the thread that calls poll().
  Result<void> revoke(const Connection& connection);

 private:
  friend class Endpoint;
  explicit Region(std::shared_ptr<unicast::RegionState> state) : state_(std::move(state)) {}
  std::shared_ptr<unicast::RegionState> state_;
};

/// The options of an endpoint. Exactly one of `key_file`, `certificates` and `insecure` must be given.
struct EndpointOptions {
  /// The name to which other endpoints connect, 1 to 255 bytes. It must be unique among the listening
  /// endpoints that share a Context and the same key or certificates. Two endpoints that connect to each
  /// other may have the same name, and often do.
  std::string name;
  /// The local address of the network to use. Its port number is used for the control connections. Port
  /// number 0 means any free port.
  Address address = Address::ipv4(127, 0, 0, 1, 0);
  std::string fabric = "auto";  ///< "auto", "udp", "shm", "verbs" or "dpdk"
  std::string device = {};      ///< the device, for fabrics that need one (dpdk)
  std::string key_file = {};
  Certificates certificates = {};
  /// If true, the endpoint uses no key and has no protection.
  bool insecure = false;
  /// If true, all that leaves this host is encrypted with AES-256-GCM. Both ends must set it. Must not be
  /// combined with `insecure`.
  bool encrypt = false;
  /// The Context whose fabric thread and control connections the endpoint uses. If null, the endpoint uses
  /// the Context of the process.
  std::shared_ptr<Context> context = nullptr;
  /// If false, the thread that creates the endpoint must drive it by calling poll(), and must destroy it.
  bool own_thread = true;
  /// If true, the fabric thread never sleeps while it waits. It then needs a CPU core of its own.
  bool busy_poll = false;
  /// The maximum numbers of operations of one connection whose completions the application has not taken yet.
  /// receive_depth limits the receives. send_depth limits all other operations. Each must be from 1 to
  /// 65,536.
  std::uint32_t send_depth = 256, receive_depth = 512;
  /// The time for which an operation of this endpoint waits if the peer has posted no receive. After that
  /// time, the operation fails with rnr_retry_exceeded. 0 means no limit. The maximum is one year.
  Duration receive_patience = seconds(10);
  /// The maximum number of connections at a time. Further peers are refused with resource_limit.
  std::uint32_t most_connections = 1024;
  /// Bytes that peers get when a connection is made (PeerInfo::private_data). At most 4096 bytes.
  std::vector<std::byte> private_data = {};
};

/// The upcalls of an endpoint. Any of them may be empty. If an upcall throws std::bad_alloc, it is not called
/// again for the same event. The connection that it was called for ends with resource_limit, and the other
/// connections go on. If completed() throws, the completions of that call count as completions_dropped. No
/// other exception may leave an upcall.
struct EndpointCallbacks {
  /// Called when a peer that holds the key wants to connect. If the upcall returns an error, the peer is
  /// refused, and its connect() fails with that error. If the upcall is empty, every peer that holds the key
  /// may connect.
  std::function<Result<void>(const PeerInfo&)> accept;
  /// Called when a peer has connected to this endpoint. Post receives here, because the peer may send at
  /// once.
  std::function<void(const Connection&)> connected;
  /// Called once for each connection that connected() or a successful connect() has given to the application,
  /// when the connection has ended. Before this call, the completions of all its operations were passed to
  /// completed(), or were queued for poll() if completed() is empty. The cause:
  ///   cancelled          one side has ended the connection in order
  ///   permission_denied  an operation of this side named memory that the peer does not allow it to access
  ///   peer_failed        the peer has died, is unreachable, has posted no receive, or has named memory
  ///                      that this side does not allow it to access
  ///   protocol_error     the peer has broken the protocol, or a message was longer than its receive. A NIC
  ///                      may report such a message only as remote_operational. The cause is then peer_failed
  ///   resource_limit     this process has no memory for the connection
  ///   any other error    the fabric has refused an operation of this side, for example with unsupported if
  ///                      the fabric does not have this operation
  std::function<void(const Connection&, const Error& cause)> disconnected;
  /// Called when operations have ended, with a batch of completions of one connection. The sends, writes,
  /// reads and atomics of a connection complete in the order in which they were posted. Its receives also
  /// complete in their order. If this upcall is empty, poll() returns the completions.
  std::function<void(std::span<const Completion>)> completed;
};

/// The counters of an endpoint. They only increase.
struct EndpointCounters {
  std::uint64_t connections_made = 0, connections_accepted = 0;
  std::uint64_t peers_refused = 0;  ///< refused by accept(), by most_connections, or for a malformed request
  std::uint64_t disconnected = 0;
  std::uint64_t sends = 0, writes = 0, reads = 0, atomics = 0;  ///< successful operations of this endpoint
  std::uint64_t receives = 0;        ///< messages and writes with immediate that arrived
  std::uint64_t bytes_received = 0;  ///< in messages and in writes with immediate
  std::uint64_t failed = 0;          ///< operations that ended with a status other than success
  std::uint64_t grants = 0, revocations = 0;
  /// Completions that were lost because memory ran out in completed() or in the library. The connection of
  /// such a completion ends.
  std::uint64_t completions_dropped = 0;
};

class Endpoint {
 public:
  /// The limits of Connection::send_copy(): the maximum length of a message, and the maximum number of copies
  /// in flight on one connection.
  static constexpr std::size_t kMostCopiedBytes = 4096, kMostCopies = 64;

  /// The endpoint to connect to.
  struct Target {
    std::string host;
    std::uint16_t port = 0;
    std::string name = {};  ///< the name of the endpoint to connect to; if empty, this endpoint's own name
    /// Bytes that the peer gets with this connection. At most 4096 bytes. If empty, the peer gets
    /// EndpointOptions::private_data.
    std::vector<std::byte> private_data = {};
  };
  using ConnectDone = std::function<void(Result<Connection>)>;

  /// Makes an endpoint. No peer can connect to it before listen(). Errors: invalid_argument if the options
  /// are not valid, and the errors of opening the fabric and of reading the key or the certificates.
  static Result<std::unique_ptr<Endpoint>> create(const EndpointOptions& options,
                                                  EndpointCallbacks callbacks = {});
  /// Ends all connections and waits for their end. Operations that are not completed are flushed. All upcalls
  /// about these ends come before the destructor returns. Must not be called in an upcall of this endpoint,
  /// or of another endpoint or node on the same fabric thread. If it is called there, an assertion stops the
  /// process.
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// Allows peers to connect from now on. All objects that accept() and connected() use must exist before
  /// this call. Must be called at most once. Errors: invalid_argument if the endpoint listens already or an
  /// upcall calls this, already_exists if the name or the port is in use, and the errors of listening at the
  /// address.
  Result<void> listen();
  /// Returns EndpointOptions::address. After listen(), the address has the port number that was assigned.
  const Address& address() const;
  /// Returns the name of the fabric, for example "udp" or "shm+udp".
  const std::string& fabric_name() const;
  /// Returns what the connections of this endpoint can do.
  const Capabilities& capabilities() const;

  /// Begins to connect to the endpoint `to`, and returns at once. `done` is an upcall, which is called once
  /// with the result, within `timeout`. A timeout of more than one year counts as one year. If `done` is
  /// empty, connected() is called with the connection, and a failure is not reported. To replace a connection
  /// that was lost, call connect() again. Regions must then be granted again on the new connection. Throws
  /// std::bad_alloc if there is no memory to begin; then `done` is never called. Errors for `done`: the
  /// errors of reaching the host; peer_failed if no process listens there; authentication; not_found if there
  /// is no endpoint of that name; timed_out; cancelled if this endpoint is being destroyed; invalid_argument
  /// if the name or the private data is too long; resource_limit; version_mismatch; protocol_error; and any
  /// error of the peer's accept().
  void connect(Target to, Duration timeout, ConnectDone done);
  /// Like the connect() above, but waits for the result, for at most `timeout` plus one second. If the
  /// connection is made after that time, it ends at once. If the endpoint has no thread of its own, only the
  /// thread that calls poll() may call this function, which then gives the engine turns while it waits.
  /// Errors: those of the connect() above, and invalid_argument if this function is called in an upcall (also
  /// in an upcall of a membership) or in a thread that must not call it.
  Result<Connection> connect(Target to, Duration timeout);

  /// Registers memory to which peers can be given access. `access` is a combination of RemoteAccess::write,
  /// read and atomic. The memory must outlive the Region. The Region may outlive the endpoint. The call waits
  /// for the fabric thread. Errors: invalid_argument if `access` is empty or has other flags, or if memory
  /// for atomic operations does not begin at a multiple of 8; unsupported if there are no atomic operations;
  /// resource_limit if the memory cannot be pinned.
  Result<Region> register_memory(std::span<std::byte> memory, RemoteAccess access);

  /// Takes up to out.size() completions, and returns their number. Waits for the first one for at most
  /// `longest`. Must not be called in an upcall. If the endpoint has no thread of its own, this function also
  /// gives the engine its turns. If `out` is then empty, it gives exactly one turn. For such an endpoint,
  /// only the thread that created it may call this function. In any other thread, this function does nothing
  /// and returns 0.
  std::size_t poll(std::span<Completion> out, Duration longest = {});

  /// Returns a descriptor for the application's own event loop (epoll, poll or io_uring), for an endpoint
  /// without a thread of its own. Like Node::descriptor(), it is readable while the engine has something to
  /// do. When it is readable, call poll() until it returns fewer completions than `out` has elements. This is
  /// necessary because completions that were not taken do not make the descriptor readable. If completed() is
  /// set, poll() returns no completions, and one call is enough. Watch the descriptor level-triggered.
  /// Errors: invalid_argument if the endpoint has a thread of its own, unsupported if the fabric has no
  /// descriptor, resource_limit.
  Result<int> descriptor();

  /// Returns the present counters. Never waits; may be called in an upcall.
  EndpointCounters counters() const;

 private:
  struct State;
  explicit Endpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rdmc
