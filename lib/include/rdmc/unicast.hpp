// Reliable messages and one-sided operations between two processes, for programs that want neither sockets
// nor groups: send, receive, write, read, compare-and-swap and fetch-and-add on connections, over whichever
// fabric there is. It is the verbs model without its objects: an Endpoint has connections, a Connection takes
// operations, and each operation has one completion. Each peer gets a key of its own to a region of memory,
// and each key can be taken back alone (the permission switch of Mu: Aguilera et al., OSDI 2020).
//
// Any thread may call anything, except where a function says otherwise. Upcalls come on the fabric thread,
// one at a time for the whole endpoint. They may call back in, and must not block. The memory that an
// operation names must not be written or freed before its completion.
//
// The control loop waits for the fabric thread now and then. So an upcall must not wait for the control loop:
// it must not make or end an endpoint, listen, or wait for a connection, and it must not make or end a
// membership or a group of one, or ask for Membership::counters(). An upcall of a membership runs on the
// control loop. It must not wait for a connection; everything else here is allowed there.
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

/// Names a connection among all that an endpoint ever has.
enum class ConnectionId : std::uint64_t {};

/// The end of one operation. Where the peer has refused it (remote_access, remote_invalid_request) and the
/// packet that says so is lost, our software repeats the refusal. A peer's RDMA NIC does not, because a queue
/// pair in the error state drops what arrives (IBTA vol. 1, 10.3.1): the status is then retry_exceeded.
struct Completion {
  ConnectionId connection{};
  std::uint64_t work_id = 0;  ///< what the application gave
  WorkKind kind = WorkKind::send;
  WorkStatus status = WorkStatus::success;
  std::uint32_t byte_count = 0;  ///< at the receiver: of the message, or of the write with immediate; else 0
  std::optional<std::uint32_t> immediate;  ///< of a receive
  std::uint64_t original = 0;              ///< of an atomic operation: the value before it
};

/// Memory of a peer that we may reach: what the peer's Region::grant() gave. The peer sends it to us, as
/// bytes for instance.
struct RemoteMemory {
  static constexpr std::size_t kEncodedBytes = 20;

  std::uint64_t address = 0;
  std::uint64_t length = 0;
  RemoteKey key{};

  std::array<std::byte, kEncodedBytes> encode() const;
  /// Errors: protocol_error (not so many bytes).
  static Result<RemoteMemory> decode(std::span<const std::byte> bytes);
  friend bool operator==(const RemoteMemory&, const RemoteMemory&) = default;
};

/// Who is at the other end of a connection.
struct PeerInfo {
  std::string name;  ///< of its endpoint
  Address address;   ///< of its control connection
  /// What its application says of itself: Endpoint::Target::private_data, or EndpointOptions::private_data.
  std::vector<std::byte> private_data;
};

/// What every connection of an endpoint can do. It depends on the fabric, and on the device below it.
struct Capabilities {
  bool atomics = true;  ///< compare_and_swap(), fetch_and_add(), and regions with RemoteAccess::atomic
  bool keys_per_connection = true;              ///< KeyScope::connection
  std::uint32_t largest_message = 0x7FFF'FFFF;  ///< bytes of one operation
};

/// A handle of a connection. All copies name the same connection. It may outlive the connection and the
/// endpoint: operations then fail with peer_failed.
///
/// Errors of all operations: would_block (as many are under way as the endpoint's depths allow: take
/// completions first), peer_failed (the connection is over), invalid_argument (longer than
/// Capabilities::largest_message, or outside of the RemoteMemory; an atomic operation at an address that is
/// no multiple of 8), unsupported (an atomic operation where there are none). An operation that was refused
/// so has no completion.
class Connection {
 public:
  /// No connection: every operation fails with peer_failed.
  Connection() = default;

  ConnectionId id() const;
  const PeerInfo& peer() const;
  /// It takes operations.
  bool is_open() const;

  /// Sends a message into the oldest unused receive of the peer.
  Result<void> send(std::span<const std::byte> bytes, std::uint64_t work_id,
                    std::optional<std::uint32_t> immediate = {}) const;
  /// The same, and `bytes` are the caller's again at once. Errors besides: invalid_argument (more than
  /// Endpoint::kMostCopiedBytes), would_block also when Endpoint::kMostCopies are under way on this
  /// connection, whatever its depth is. The place of a copy is free again when its operation has ended, even
  /// if nobody has taken the completion.
  Result<void> send_copy(std::span<const std::byte> bytes, std::uint64_t work_id,
                         std::optional<std::uint32_t> immediate = {}) const;
  /// Memory for one message of the peer's. An empty receive serves a write with immediate. A sender that
  /// finds no receive waits for its own EndpointOptions::receive_patience.
  Result<void> post_receive(std::span<std::byte> bytes, std::uint64_t work_id) const;
  /// Writes into `to`, from its byte `offset` on.
  Result<void> write(std::span<const std::byte> bytes, const RemoteMemory& to, std::uint64_t offset,
                     std::uint64_t work_id) const;
  /// The same, and uses up one receive that the peer has posted: its completion carries `immediate` there.
  Result<void> write_with_immediate(std::span<const std::byte> bytes, const RemoteMemory& to,
                                    std::uint64_t offset, std::uint32_t immediate,
                                    std::uint64_t work_id) const;
  /// Reads from `from`, from its byte `offset` on, into `bytes`. An operation that was posted after a read
  /// may happen before the read (IBTA vol. 1, table 79): wait for the read's completion.
  Result<void> read(std::span<std::byte> bytes, const RemoteMemory& from, std::uint64_t offset,
                    std::uint64_t work_id) const;
  /// On 8 bytes of the peer's, in its byte order: `swap` takes the place of the value if that is `expected`.
  Result<void> compare_and_swap(const RemoteMemory& at, std::uint64_t offset, std::uint64_t expected,
                                std::uint64_t swap, std::uint64_t work_id) const;
  Result<void> fetch_and_add(const RemoteMemory& at, std::uint64_t offset, std::uint64_t add,
                             std::uint64_t work_id) const;

  /// Ends the connection, soon. Operations whose completion has not come by then are flushed, and
  /// disconnected() is called with Errc::cancelled, here and at the peer.
  void disconnect() const;

 private:
  friend class Endpoint;
  friend class Region;
  friend class unicast::Introductions;
  explicit Connection(std::shared_ptr<unicast::Link> link) : link_(std::move(link)) {}
  std::shared_ptr<unicast::Link> link_;
};

/// On which connections a key is good.
enum class KeyScope {
  connection,  ///< on the one that it was granted for
  device,      ///< on each one of the same device, for a peer that learns it from somebody
};

struct GrantOptions {
  /// What the key permits: all that the region permits, or less.
  std::optional<RemoteAccess> access = {};
  KeyScope widest = KeyScope::connection;
};

/// Memory that peers may be let into. It ends with all its keys when it is destroyed: by then no packet,
/// however late, changes a byte of it. The functions, the destructor and the assignment wait for the fabric
/// thread. Without an own thread only the thread that polls may grant and revoke; a Region that another
/// thread destroys ends in the next turn, and its memory must last until then.
class Region {
 public:
  Region() = default;
  Region(Region&&) noexcept = default;
  Region& operator=(Region&& other) noexcept;
  ~Region();

  std::span<std::byte> bytes() const;
  /// Lets the peer of this connection alone in, by a key that is good on no other connection. A connection
  /// has one key to a region; those of different connections may permit different things. The verbs fabric
  /// cannot tie a key to a connection. It refuses, unless `widest` permits a key that any connection of the
  /// device could use; such a key, too, is a different one for each grant, and can be taken back by itself.
  /// Errors: already_exists (it has a key: revoke that first), peer_failed (the connection is over),
  /// unsupported (this fabric can make no key of this scope), invalid_argument (a connection of another
  /// endpoint; access that the region does not permit, or none), resource_limit.
  Result<RemoteMemory> grant(const Connection& connection, const GrantOptions& options = {});
  /// Takes the key back. When this returns, no packet of that peer, however late, changes a byte of the
  /// memory, and the keys of other peers are as good as before. An operation of the peer with the old key
  /// fails there with WorkStatus::remote_access, and ends the connection for both sides. The connection ends
  /// even if the peer already has a new key: tell the peer before you revoke. The end of a connection takes
  /// its keys back, too. To revoke what was not granted is no error. Errors: invalid_argument (another thread
  /// than the one that polls, without an own thread): nothing is revoked.
  Result<void> revoke(const Connection& connection);

 private:
  friend class Endpoint;
  explicit Region(std::shared_ptr<unicast::RegionState> state) : state_(std::move(state)) {}
  std::shared_ptr<unicast::RegionState> state_;
};

/// With a key file, certificates, or insecure: one of the three.
struct EndpointOptions {
  /// What others connect to; endpoints that talk to each other commonly have the same. At most 255 bytes, and
  /// unique among those that share a Context and an identity.
  std::string name;
  /// The address of the network to use. The port is that of the control connections; 0: any.
  Address address = Address::ipv4(127, 0, 0, 1, 0);
  std::string fabric = "auto";  ///< "auto", "udp", "shm", "verbs", "dpdk"
  std::string device = {};      ///< where the fabric needs one named (dpdk)
  std::string key_file = {};
  Certificates certificates = {};
  /// No key and no protection. You must ask for it.
  bool insecure = false;
  /// AES-256-GCM for all that leaves this host, at both ends alike. Not with insecure.
  bool encrypt = false;
  /// With whom the endpoint shares its thread and control connections; null: with all that this process has
  /// without a Context of its own.
  std::shared_ptr<Context> context = nullptr;
  /// False: the thread that creates the endpoint calls poll(), and destroys the endpoint.
  bool own_thread = true;
  /// Never sleep while waiting: for a dedicated core.
  bool busy_poll = false;
  /// The most operations of one connection whose completions have not been taken: sends of all kinds, and
  /// receives. From 1 to 65,536.
  std::uint32_t send_depth = 256, receive_depth = 512;
  /// A peer that has posted no receive for so long is given up (rnr_retry_exceeded); 0: never. At most a
  /// year.
  Duration receive_patience = seconds(10);
  /// Connections at a time; a peer beyond it is refused with resource_limit.
  std::uint32_t most_connections = 1024;
  /// What peers learn of us when they connect. At most 4096 bytes.
  std::vector<std::byte> private_data = {};
};

/// Upcalls; any may be empty. One that throws std::bad_alloc is not repeated, and the connection ends with
/// resource_limit, but no other one; what completed() was given counts as completions_dropped. No other
/// exception may leave an upcall.
struct EndpointCallbacks {
  /// A peer that holds the key wants to connect. With an error it is refused, and its connect() fails with
  /// that error. Empty: everybody who holds the key may.
  std::function<Result<void>(const PeerInfo&)> accept;
  /// A peer has connected to us. Post receives here: the peer may send at once.
  std::function<void(const Connection&)> connected;
  /// A connection that connected() or a successful connect() gave is over: once, after the completions of all
  /// its operations were handed out - or, without completed(), queued for poll(). The cause:
  ///   cancelled          one side has ended it in order
  ///   permission_denied  an operation of ours named memory that the peer does not let us into
  ///   peer_failed        the peer has died, is unreachable, has posted no receive, or has named memory
  ///                      that we do not let it into
  ///   protocol_error     the peer has broken the protocol, or a message was longer than its receive. A NIC
  ///                      may report only remote_operational for that, which becomes peer_failed
  ///   resource_limit     this process has no memory for it
  ///   any other          the fabric has refused an operation of ours (unsupported: it cannot do that)
  std::function<void(const Connection&, const Error& cause)> disconnected;
  /// Operations have ended: a batch of one connection. Those of one connection come in the order of posting,
  /// receives in their own. Empty: poll() gives them.
  std::function<void(std::span<const Completion>)> completed;
};

/// What an endpoint has done so far; monotone.
struct EndpointCounters {
  std::uint64_t connections_made = 0, connections_accepted = 0;
  std::uint64_t peers_refused = 0;  ///< that wanted to connect: malformed, too many, not accepted
  std::uint64_t disconnected = 0;
  std::uint64_t sends = 0, writes = 0, reads = 0, atomics = 0;  ///< ours that succeeded
  std::uint64_t receives = 0;                                   ///< messages and immediates that arrived
  std::uint64_t bytes_received = 0;                             ///< of messages, and of writes with immediate
  std::uint64_t failed = 0;  ///< operations with another status than success
  std::uint64_t grants = 0, revocations = 0;
  /// Completions lost because memory ran out, in completed() or in the library; the connection ends then.
  std::uint64_t completions_dropped = 0;
};

class Endpoint {
 public:
  /// Of Connection::send_copy(): the longest message, and the messages under way on one connection.
  static constexpr std::size_t kMostCopiedBytes = 4096, kMostCopies = 64;

  /// How another endpoint is reached.
  struct Target {
    std::string host;
    std::uint16_t port = 0;
    std::string name = {};  ///< of that endpoint; empty: as ours
    /// What it learns of us by this connection. At most 4096 bytes; empty: EndpointOptions::private_data.
    std::vector<std::byte> private_data = {};
  };
  using ConnectDone = std::function<void(Result<Connection>)>;

  /// Nobody connects to it before listen(). Errors: invalid_argument (options that make no sense), those of
  /// opening the fabric, and of reading the key or certificates.
  static Result<std::unique_ptr<Endpoint>> create(const EndpointOptions& options,
                                                  EndpointCallbacks callbacks = {});
  /// Ends all connections and waits for it: operations are flushed, and the upcalls for all of that come
  /// before it returns. Not in an upcall, nor in one of another endpoint or node on the same thread: that
  /// stops the process.
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// Lets others connect from now on, so what accept() and connected() need is there before. Once. Errors:
  /// invalid_argument (it listens already; an upcall), already_exists (the name or the port is in use), those
  /// of listening.
  Result<void> listen();
  /// EndpointOptions::address; after listen() with the port that it got.
  const Address& address() const;
  /// "udp", "shm+udp", …
  const std::string& fabric_name() const;
  const Capabilities& capabilities() const;

  /// Connects to the endpoint there; `done` is an upcall, which comes once, within `timeout` (at most a
  /// year). Where `done` is empty, connected() tells of the connection, and nobody of a failure. After a
  /// connection was lost, connect() makes a new one; regions are granted on it anew. Throws std::bad_alloc,
  /// and calls `done` never, if there is no memory even to begin. Errors for `done`: those of reaching the
  /// host, peer_failed (nobody listens there), authentication, not_found (no endpoint of that name),
  /// timed_out, cancelled (the endpoint is being destroyed), invalid_argument (a name or private data that is
  /// too long), resource_limit, version_mismatch, protocol_error, and whatever accept() there refuses with.
  void connect(Target to, Duration timeout, ConnectDone done);
  /// The same, and waits, at most a second longer than `timeout`: a connection that comes later ends at once.
  /// Without an own thread, the thread that polls may call it, which gives turns meanwhile. Errors: the same;
  /// invalid_argument (an upcall, also of a membership, or another thread).
  Result<Connection> connect(Target to, Duration timeout);

  /// Memory that peers may be let into, as far as `access` says: a set of RemoteAccess::write, read and
  /// atomic. The memory outlives the Region, and the Region may outlive the endpoint. Waits for the fabric
  /// thread. Errors: invalid_argument (other flags, or none; memory for atomic operations that does not begin
  /// at a multiple of 8), unsupported (atomic, where there are none), resource_limit (it cannot be pinned).
  Result<Region> register_memory(std::span<std::byte> memory, RemoteAccess access);

  /// Takes up to out.size() completions and returns how many; waits for the first at most `longest`. Where
  /// the endpoint has no thread of its own, this gives it its turns - also with an empty `out`, for one turn
  /// - and only the thread that created it may call it: in any other thread it does nothing and returns 0.
  /// Not in an upcall.
  std::size_t poll(std::span<Completion> out, Duration longest = {});

  /// Without an own thread, for a loop of the application's: a descriptor that is readable while the engine
  /// has something to do, as Node::descriptor(). Any of epoll, poll and io_uring can watch it. When it is,
  /// call poll() until it returns less than `out` has room for: completions that were not taken do not make
  /// it readable. With `completed` upcalls there are none to take, and one call is enough. Watch it
  /// level-triggered. Errors: invalid_argument (the endpoint has a thread of its own), unsupported (by this
  /// fabric), resource_limit.
  Result<int> descriptor();

  EndpointCounters counters() const;

 private:
  struct State;
  explicit Endpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rdmc
