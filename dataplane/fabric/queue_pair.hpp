// The queue pair as every provider offers it: the software fabric (an RC transport over a port), verbs, and
// shm. It follows the verbs model, with values for structures: work requests are posted, completions are
// polled, and each completion names its work request. One fabric thread owns a fabric and all its queue
// pairs. The memory that a work request names belongs to the caller, who must not change it before the
// completion has been polled.
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
#include "dataplane/fabric/peer_memory.hpp"
#include "dataplane/fabric/work_status.hpp"
#include "dataplane/memory/arena.hpp"
#include "dataplane/memory/shared_pages.hpp"

namespace rdmc::fabric {

struct Completion {
  std::uint64_t work_id = 0;
  WorkKind kind = WorkKind::send;
  WorkStatus status = WorkStatus::success;
  std::uint32_t byte_count = 0;            ///< The length, for a receive, a WRITE that arrived, and a READ.
  std::optional<std::uint32_t> immediate;  ///< For a receive and for a WRITE that arrived.
  std::optional<RemoteKey> invalidated;    ///< For a receive: the local key that the peer's SEND revoked.
  /// For a WRITE that arrived: the payload is in the memory that redirect_write() named.
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
  std::span<const std::byte> bytes;  ///< At most 2^31 - 1 bytes.
  std::uint64_t remote_address = 0;
  RemoteKey remote_key{};
  std::optional<std::uint32_t> immediate;
  /// Only for a WRITE with immediate: it may complete at the peer before earlier work requests that wait for
  /// a lost packet. It consumes the oldest receive that the peer has posted, even if an earlier SEND waits
  /// for a receive. This flag is a hint, and some providers ignore it.
  bool unordered = false;
};

struct ReadRequest {
  std::uint64_t work_id = 0;
  std::span<std::byte> bytes;  ///< The memory that the payload is written to; at most 2^31 - 1 bytes.
  std::uint64_t remote_address = 0;
  RemoteKey remote_key{};
};

/// An operation on 8 bytes of the peer's memory, in the peer's byte order. The address must be a multiple of
/// 8.
struct AtomicRequest {
  enum class Kind : std::uint8_t { compare_swap, fetch_add };
  std::uint64_t work_id = 0;
  Kind kind = Kind::fetch_add;
  std::uint64_t remote_address = 0;
  RemoteKey remote_key{};
  std::uint64_t swap_or_add = 0;
  std::uint64_t compare = 0;  ///< For compare_swap: the value is replaced only if it equals this one.
};

struct ReceiveRequest {
  std::uint64_t work_id = 0;
  std::span<std::byte> bytes;  ///< May be empty if the receive is only for a WRITE with immediate.
};

/// The bytes that one side gives to the other one so that they can connect: address, QPN, first PSN, path
/// MTU, capabilities. The code that carries them does not look inside.
using ConnectionBlob = std::vector<std::byte>;

/// Describes where a peer on the same host finds memory of this process. Only the providers of both sides
/// understand it.
struct MappingOffer {
  std::uint32_t arena = 0;
  std::uint64_t offset = 0;
  friend bool operator==(const MappingOffer&, const MappingOffer&) = default;
};
/// A peer's memory that is mapped here for reading. It stays mapped as long as `keeper` exists.
struct MappedMemory {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keeper;
};

enum class QueuePairState : std::uint8_t { reset, ready, error };

/// Memory that peers may access if they know its remote key, with the rights that its registration gives.
/// Destroying the region revokes the key: no packet that arrives later changes a byte of the memory.
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
  /// A text for people: why the queue pair is in the error state. Empty in any other state.
  virtual std::string error_cause() const = 0;

  /// Errors of all posts: would_block if the queue is full, invalid_argument, peer_failed in the error state.
  virtual Result<void> post_send(const SendRequest& request) = 0;
  virtual Result<void> post_write(const WriteRequest& request) = 0;
  virtual Result<void> post_read(const ReadRequest& request) = 0;
  virtual Result<void> post_atomic(const AtomicRequest& request) = 0;
  virtual Result<void> post_receive(const ReceiveRequest& request) = 0;

  /// A hint: the peer's next WRITE that no earlier hint covers will be placed in `where`, of which no byte is
  /// valid yet. Providers that scatter received packets use the hint; other providers ignore it. A wrong hint
  /// costs a copy, and bytes of `where` may hold garbage until the right bytes arrive. A wrong hint has no
  /// other effect. The same memory may be hinted again while nothing has arrived in it. Once something has
  /// arrived there, older hints for it have no effect. A hint also ends when another queue pair expects or
  /// writes that memory, or when a region of that memory is registered or destroyed.
  virtual void expect_write(std::span<std::byte> where) = 0;

  /// Places the peer's next WRITE into the local region of this key in `where` instead, if that WRITE has
  /// exactly where.size() bytes. Its completion then has `redirected` set. An empty `where` cancels the
  /// redirection. This is for memory that becomes known only after the peer has posted the WRITE. Returns
  /// false if the placement of that WRITE has begun, or if this provider cannot redirect.
  virtual bool redirect_write(RemoteKey, std::span<std::byte>) { return false; }

  /// Lets the peer read `bytes` in place, without a copy. The caller must send the returned offer to the peer
  /// by other means, and must not change `bytes` while the peer reads them. Returns nullopt if this provider
  /// cannot do that, or if `bytes` is not in memory that make_arena() made.
  virtual std::optional<MappingOffer> offer_mapping(std::span<const std::byte>) { return std::nullopt; }
  /// Maps this number of bytes of the memory that the peer has offered. Errors: unsupported, protocol_error
  /// if the peer has offered no such memory.
  virtual Result<MappedMemory> map(const MappingOffer&, std::uint64_t) {
    return fail(Errc::unsupported, "nothing is seen of a peer's memory here");
  }

  /// Registers memory that only the peer of this queue pair may access. A packet on any other queue pair that
  /// names the key is refused like one with a wrong key. The fabric must outlive the region; the queue pair
  /// need not. Errors: unsupported if this provider's keys are valid on all queue pairs, invalid_argument if
  /// the queue pair is not connected, and the errors of Fabric::register_memory.
  virtual Result<std::unique_ptr<MemoryRegion>> register_memory(std::span<std::byte>, RemoteAccess) {
    return fail(Errc::unsupported, "this provider ties no key to a queue pair");
  }

  /// Takes up to out.size() completions in post order (but see WriteRequest::unordered). Returns their
  /// number.
  virtual std::size_t poll_completions(std::span<Completion> out) = 0;

  /// True if the two processes can share memory that both may write, in addition to the work requests. For
  /// this, they must be on one host and their shm handshake must be complete. Some providers always return
  /// false.
  virtual bool can_share_pages() const { return false; }
  /// Gives the peer `pages`, which it may write. Returns false if that is not possible now.
  virtual bool share_pages(const memory::SharedPages&) { return false; }
  /// Returns the pages that the peer has given, once.
  virtual std::optional<memory::SharedPages> take_shared_pages() { return std::nullopt; }
  /// Returns null if the peer's memory cannot be read, or cannot be read yet. The object may outlive the
  /// queue pair.
  virtual std::shared_ptr<const PeerMemory> peer_memory() const { return nullptr; }

  virtual ConnectionBlob local_blob() const = 0;
  /// Changes the state from reset to ready. Errors: protocol_error or version_mismatch for a bad blob,
  /// unsupported if there is no common path MTU.
  virtual Result<void> connect(std::span<const std::byte> peer_blob) = 0;
};

/// The use of a region. relayed: while the region is registered, only peers write it, and what they wrote may
/// be sent on. A provider may then remember checksums of received payload.
enum class MemoryUse : std::uint8_t { general, relayed };

struct QueuePairOptions {
  std::uint32_t send_depth = 256;  ///< The most outstanding work requests, receives excepted.
  std::uint32_t receive_depth = 512;
  /// 4.096 us x 2^14. Between two endpoints of rdmc, the measured round-trip time decides instead.
  Duration ack_timeout = milliseconds(67);
  std::uint8_t retry_limit = 7;
  std::uint8_t rnr_retry_limit = 7;  ///< 7 = no limit on the number; rnr_patience applies.
  /// A peer that posts no receive for this long is given up; 0 = never.
  Duration rnr_patience = seconds(10);
  std::uint8_t max_rd_atomic = 16;  ///< READs and atomics in flight, in each direction; 1 to 255.
  bool selective_repeat = true;     ///< Offered to the peer, and used if the peer offers it too.
  std::uint32_t path_mtu = 0;  ///< The largest payload of a packet; 0 = as large as the port's MTU allows.
  /// The length of the longest SEND that the peer sends on this queue pair; 0 = not known. A NIC then
  /// receives short SENDs in a queue that all queue pairs share. A peer that sends too many of them before
  /// receives are posted is disconnected.
  std::uint32_t largest_receive = 0;
  /// False if this queue pair carries only small messages. In the software fabric, its messages then arrive
  /// on the flow that all queue pairs share, not on a flow for bulk data.
  bool bulk = true;
};

struct FabricInfo {
  std::string name;            ///< The provider or driver: "udp", "sim" and others.
  std::uint32_t path_mtu = 0;  ///< The largest path MTU that a queue pair of this fabric can agree to.
  /// True if packets between endpoints of rdmc have an ICRC. Packets of foreign endpoints always have one.
  bool icrc = true;
  /// True if all packets that leave this host are encrypted and authenticated.
  bool encrypted = false;
  /// Copies of each byte below the provider, sum of both sides. bytes_copied() does not count them.
  double carrier_copies_per_byte = 0;
  /// True if a device or a peer knows memory by its pages. Then the pages of registered memory must not be
  /// exchanged for other pages. A work request whose memory is in no region may cost a registration.
  bool pins_memory = false;
  // What all queue pairs of the fabric can do, whatever their peers are.
  bool atomics = true;
  bool ties_keys = true;  ///< True if QueuePair::register_memory() works.
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
  /// Makes payload memory of the kind that this provider moves fastest. Errors: those of memory::Arena.
  virtual Result<memory::Arena> make_arena(std::size_t bytes, memory::Touch touch = memory::Touch::now) {
    return memory::Arena::make(bytes, touch);
  }

  /// Sends, receives and runs timers. Returns how much was done; 0 = nothing. The next call answers what this
  /// call received, together with what the caller has posted in between.
  virtual std::size_t progress(Time now) = 0;
  /// The time at which progress() must be called even if nothing arrives.
  virtual Time next_deadline() const = 0;
  /// Called when the engine found nothing to do and is about to look again at once. Other processes may need
  /// the core.
  virtual void pause() {}
  virtual void wait(Time deadline) = 0;
  virtual void wake() noexcept = 0;

  // An alternative to wait(), for a caller that watches descriptors itself (epoll, poll, io_uring).

  /// Returns descriptors of which one becomes readable when wait() would return for another reason than its
  /// deadline. The caller must watch them edge-triggered (EPOLLET). Errors: unsupported, and the errors of
  /// creating them.
  virtual Result<std::vector<int>> wait_descriptors() {
    return fail(Errc::unsupported, "nothing shows when this fabric has something to do");
  }
  /// Must be called before the caller waits. Returns the time until which the caller may wait, at most the
  /// deadline that is passed. A time in the past means that there is something to do. The caller must call
  /// finish_wait() before the next progress().
  virtual Time prepare_wait(Time) { return Time{}; }
  virtual void finish_wait() {}
  /// The payload bytes that this process has copied so far, without the copies in the kernel's sockets.
  virtual std::uint64_t bytes_copied() const = 0;
};

}  // namespace rdmc::fabric
