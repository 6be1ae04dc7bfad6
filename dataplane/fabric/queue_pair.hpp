// The interfaces of a queue pair and of a fabric. Three providers implement them: the software fabric (an RC
// transport over a port), verbs, and shm. The interfaces follow the verbs model: work requests are posted,
// completions are polled, and each completion names its work request. Unlike in verbs, requests and
// completions are plain values. One fabric thread owns a fabric and all its queue pairs. The memory that a
// work request names belongs to the caller. The caller must not change this memory before the completion has
// been polled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/fabric/work_status.hpp"
#include "dataplane/memory/arena.hpp"

namespace rdmc::fabric {

class LocalPeer;

struct Completion {
  std::uint64_t work_id = 0;
  WorkKind kind = WorkKind::send;
  WorkStatus status = WorkStatus::success;
  /// The length. Valid for a receive, a WRITE that arrived, and a READ.
  std::uint32_t byte_count = 0;
  /// The immediate that the peer sent. Valid for a receive and for a WRITE that arrived.
  std::optional<std::uint32_t> immediate;
  std::optional<RemoteKey> invalidated;  ///< For a receive: the local key that the peer's SEND revoked.
  /// For a WRITE that arrived: the payload is in the memory that LocalPeer::redirect_write() named.
  bool redirected = false;
  std::uint64_t original = 0;  ///< For an atomic: the value before the operation.
};

struct SendRequest {
  std::uint64_t work_id = 0;
  std::span<const std::byte> bytes;
  std::optional<std::uint32_t> immediate;  ///< At most one of `immediate` and `invalidate` may be set.
  std::optional<RemoteKey> invalidate;     ///< A remote key of the peer that this SEND revokes.
};

struct WriteRequest {
  std::uint64_t work_id = 0;
  std::span<const std::byte> bytes;  ///< The payload: at most 2^31 - 1 bytes.
  std::uint64_t remote_address = 0;
  RemoteKey remote_key{};
  std::optional<std::uint32_t> immediate;
  /// If true, this WRITE may complete at the peer before earlier work requests that wait for a lost packet.
  /// It then consumes the oldest receive that the peer has posted, even if an earlier SEND waits for a
  /// receive. Only for a WRITE with immediate. This flag is a hint, and some providers ignore it.
  bool unordered = false;
};

struct ReadRequest {
  std::uint64_t work_id = 0;
  /// The memory into which the payload is written: at most 2^31 - 1 bytes.
  std::span<std::byte> bytes;
  std::uint64_t remote_address = 0;
  RemoteKey remote_key{};
};

/// An operation on 8 bytes of the peer's memory, in the peer's byte order. The remote address must be a
/// multiple of 8.
struct AtomicRequest {
  enum class Kind : std::uint8_t { compare_swap, fetch_add };
  std::uint64_t work_id = 0;
  Kind kind = Kind::fetch_add;
  std::uint64_t remote_address = 0;
  RemoteKey remote_key{};
  std::uint64_t swap_or_add = 0;
  std::uint64_t compare = 0;  ///< For compare_swap: the old value is replaced only if it equals `compare`.
};

struct ReceiveRequest {
  std::uint64_t work_id = 0;
  /// The memory for the payload. May be empty if the receive is only for a WRITE with immediate.
  std::span<std::byte> bytes;
};

/// The bytes that each side gives to the other side so that they can connect: address, QPN, first PSN, path
/// MTU, capabilities. The code that carries these bytes does not look into them.
using ConnectionBlob = std::vector<std::byte>;

enum class QueuePairState : std::uint8_t { reset, ready, error };

/// Memory that peers may access if they know its remote key. The registration of the memory defines the
/// rights of these peers. Destroying the region revokes the key: no packet that arrives later changes a byte
/// of the memory.
class MemoryRegion {
 public:
  virtual ~MemoryRegion() = default;
  virtual RemoteKey remote_key() const noexcept = 0;
  /// The remote address that a peer must use for the region's first byte.
  virtual std::uint64_t remote_address() const noexcept = 0;
};

class QueuePair {
 public:
  virtual ~QueuePair() = default;

  virtual QueuePairState state() const noexcept = 0;
  /// Returns the reason why the queue pair is in the error state, as a text for people. Empty in any other
  /// state.
  virtual std::string error_cause() const = 0;

  /// All functions that post have these errors: would_block if the queue is full, invalid_argument,
  /// peer_failed in the error state.
  virtual Result<void> post_send(const SendRequest& request) = 0;
  virtual Result<void> post_write(const WriteRequest& request) = 0;
  virtual Result<void> post_read(const ReadRequest& request) = 0;
  virtual Result<void> post_atomic(const AtomicRequest& request) = 0;
  virtual Result<void> post_receive(const ReceiveRequest& request) = 0;

  /// Gives a hint to the provider: the peer's next WRITE that no earlier hint covers will have `bytes` bytes
  /// and go to this key and address. The hint also states that no byte of that memory is valid yet. Providers
  /// that scatter received packets use the hint; other providers ignore it. A wrong hint has only two
  /// effects: it costs a copy, and bytes of that memory may be garbage until the right bytes arrive. A hint
  /// for memory that the peer may not write has no effect.
  ///
  /// The same memory may be named in another hint while nothing has arrived in it. Once something has arrived
  /// in this memory, older hints for it have no effect. A hint also ends when another queue pair expects or
  /// writes the same memory, or when a region of that memory is registered or destroyed.
  virtual void expect_write(RemoteKey, std::uint64_t /*remote_address*/, std::uint32_t /*bytes*/) {}

  /// Registers memory that only the peer of this queue pair may access. A packet on any other queue pair that
  /// names the key is refused, like a packet with a wrong key. The fabric must outlive the region; the queue
  /// pair may end earlier. Errors: unsupported if this provider's keys are valid on all queue pairs,
  /// invalid_argument if the queue pair is not connected, and the errors of Fabric::register_memory.
  virtual Result<std::unique_ptr<MemoryRegion>> register_memory(std::span<std::byte>, RemoteAccess) {
    return fail(Errc::unsupported, "this provider ties no key to a queue pair");
  }

  /// Takes up to out.size() completions in post order and returns their number. Only unordered WRITEs
  /// (WriteRequest::unordered) may complete in another order.
  virtual std::size_t poll_completions(std::span<Completion> out) = 0;

  /// Returns the object whose functions are possible only with a peer on this host. Returns null if the peer
  /// is not on this host, if this provider has no such functions, and until the shm handshake is complete.
  /// After that, the result stays the same and is valid as long as the queue pair.
  virtual LocalPeer* local_peer() noexcept { return nullptr; }

  virtual ConnectionBlob local_blob() const = 0;
  /// Changes the state from reset to ready. Errors: protocol_error or version_mismatch for a bad blob,
  /// unsupported if there is no common path MTU.
  virtual Result<void> connect(std::span<const std::byte> peer_blob) = 0;
};

/// The use of a region. With `relayed`, only peers write the region while it is registered, and the bytes
/// that they wrote may be sent on. A provider may then remember checksums of received payload.
enum class MemoryUse : std::uint8_t { general, relayed };

struct QueuePairOptions {
  /// The maximum number of outstanding work requests, not counting receives.
  std::uint32_t send_depth = 256;
  std::uint32_t receive_depth = 512;
  /// The time to wait for an acknowledgement: 4.096 us x 2^14. Between two endpoints of rdmc, the measured
  /// round-trip time is used instead.
  Duration ack_timeout = milliseconds(67);
  std::uint8_t retry_limit = 7;
  /// The maximum number of retries after RNR NAKs. 7 means that only rnr_patience limits the retries.
  std::uint8_t rnr_retry_limit = 7;
  /// If a peer posts no receive for this long, the connection is given up. 0 means that there is no limit.
  Duration rnr_patience = seconds(10);
  /// The maximum number of READs and atomics in flight in each direction: 1 to 255.
  std::uint8_t max_rd_atomic = 16;
  /// True if selective repeat is offered to the peer. It is used if both sides offer it.
  bool selective_repeat = true;
  /// The largest payload of a packet. 0 means as large as the port's MTU allows.
  std::uint32_t path_mtu = 0;
  /// The length of the longest SEND that the peer sends on this queue pair. 0 means that it is not known. If
  /// the length is known and short, a NIC receives these SENDs in a queue that all queue pairs share. If a
  /// peer then sends too many of them before receives are posted, its connection is ended.
  std::uint32_t largest_receive = 0;
  /// False if this queue pair carries only small messages. In the software fabric, its messages then arrive
  /// on the flow that all queue pairs share, not on a flow for bulk data.
  bool bulk = true;
};

struct FabricInfo {
  std::string name;  ///< The name of the provider or driver, for example "udp" or "sim".
  /// The largest path MTU that a queue pair of this fabric can use.
  std::uint32_t path_mtu = 0;
  /// True if packets between endpoints of rdmc have an ICRC. Packets of foreign endpoints always have one.
  bool icrc = true;
  /// True if all packets that leave this host are encrypted and authenticated.
  bool encrypted = false;
  /// How many times each byte is copied below the provider, added over both sides. bytes_copied() does not
  /// count these copies.
  double carrier_copies_per_byte = 0;
  /// True if a device or a peer refers to memory by its pages. Then the pages of registered memory must not
  /// be replaced by other pages. Also, a work request whose memory is in no region may then cost a
  /// registration.
  bool pins_memory = false;
  // The capabilities of all queue pairs of the fabric, independent of their peers.
  bool atomics = true;
  bool ties_keys = true;  ///< True if QueuePair::register_memory() is supported.
  std::uint32_t largest_message = 0x7FFF'FFFF;
};

class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual FabricInfo info() const = 0;
  virtual Result<std::unique_ptr<QueuePair>> create_queue_pair(const QueuePairOptions& options) = 0;
  virtual Result<std::unique_ptr<MemoryRegion>> register_memory(
      std::span<std::byte> memory, MemoryUse use = MemoryUse::general,
      RemoteAccess access = RemoteAccess::write) = 0;
  /// Makes memory for payload, of the kind that this provider moves fastest. Errors: those of memory::Arena.
  virtual Result<memory::Arena> make_arena(std::size_t bytes, memory::Touch touch = memory::Touch::now) {
    return memory::Arena::make(bytes, touch);
  }

  /// Sends, receives and runs timers. Returns a measure of the work done; 0 means that nothing was done.
  /// Answers to the packets that this call received are sent by the next call, together with the work
  /// requests that the caller has posted in between.
  virtual std::size_t progress(Time now) = 0;
  /// Returns the time at which progress() must be called even if nothing arrives.
  virtual Time next_deadline() const = 0;
  /// Called when the engine has found nothing to do and will check for work again at once. The provider may
  /// offer the core to other processes here.
  virtual void pause() {}
  virtual void wait(Time deadline) = 0;
  virtual void wake() noexcept = 0;

  // An alternative to wait(), for a caller that watches descriptors itself (epoll, poll, io_uring).

  /// Returns descriptors for the caller to watch. One of them becomes readable when wait() would return for
  /// another reason than its deadline. The caller must watch them edge-triggered (EPOLLET). Errors:
  /// unsupported, and the errors of creating the descriptors.
  virtual Result<std::vector<int>> wait_descriptors() {
    return fail(Errc::unsupported, "nothing shows when this fabric has something to do");
  }
  /// Must be called before the caller waits. Returns the time until which the caller may wait. This time is
  /// at most the deadline in the argument. A time in the past means that there is something to do. The caller
  /// must call finish_wait() before the next progress().
  virtual Time prepare_wait(Time) { return Time{}; }
  virtual void finish_wait() {}
  /// Returns the number of payload bytes that this process has copied so far. Copies in the kernel's sockets
  /// are not counted.
  virtual std::uint64_t bytes_copied() const = 0;
};

}  // namespace rdmc::fabric
