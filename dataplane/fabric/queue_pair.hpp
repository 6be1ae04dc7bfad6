// The queue pair as every provider offers it: software (our RC transport over a port), verbs, shm.
// It is the verbs model with values for structures: post work, poll completions; each completion names its
// work request. One engine thread owns a fabric and all its queue pairs. Memory named by a work request is
// the caller's and stays untouched until its completion has been polled.
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
  std::uint32_t byte_count = 0;            ///< of a receive or of the WRITE that arrived
  std::optional<std::uint32_t> immediate;  ///< of a receive
  std::optional<RemoteKey> invalidated;    ///< of a receive: our key that the peer took out of use
  bool redirected = false;                 ///< of a WRITE that arrived: it lies where redirect_write() said
  std::uint64_t original = 0;              ///< of an atomic: the value before it
};

struct SendRequest {
  std::uint64_t work_id = 0;
  std::span<const std::byte> bytes;
  std::optional<std::uint32_t> immediate;  ///< this …
  std::optional<RemoteKey> invalidate;     ///< … or a key of the peer's that goes out of use, or neither
};

struct WriteRequest {
  std::uint64_t work_id = 0;
  std::span<const std::byte> bytes;  ///< at most 2^31 - 1
  std::uint64_t remote_address = 0;
  RemoteKey remote_key{};
  std::optional<std::uint32_t> immediate;
  /// With an immediate: the peer may see it complete before what was posted earlier, where a lost packet
  /// holds that up. It takes the oldest receive that the peer has posted, also where a SEND waits for one. A
  /// hint: not every provider can.
  bool unordered = false;
};

struct ReadRequest {
  std::uint64_t work_id = 0;
  std::span<std::byte> bytes;  ///< where they go; at most 2^31 - 1
  std::uint64_t remote_address = 0;
  RemoteKey remote_key{};
};

/// On 8 bytes of the peer's, at a multiple of 8, in its byte order.
struct AtomicRequest {
  enum class Kind : std::uint8_t { compare_swap, fetch_add };
  std::uint64_t work_id = 0;
  Kind kind = Kind::fetch_add;
  std::uint64_t remote_address = 0;
  RemoteKey remote_key{};
  std::uint64_t swap_or_add = 0;
  std::uint64_t compare = 0;  ///< compare_swap: swaps if this is the value
};

struct ReceiveRequest {
  std::uint64_t work_id = 0;
  std::span<std::byte> bytes;  ///< may be empty: enough for a WRITE with immediate
};

/// What one side tells the other so that they can connect: address, QPN, first PSN, path MTU, capabilities.
/// Opaque to whoever carries it.
using ConnectionBlob = std::vector<std::byte>;

/// Where a peer that shares the host finds memory of ours; the provider's words, for the peer's ears.
struct MappingOffer {
  std::uint32_t arena = 0;
  std::uint64_t offset = 0;
  friend bool operator==(const MappingOffer&, const MappingOffer&) = default;
};
/// A peer's memory, read where it lies; there as long as `keeper` is.
struct MappedMemory {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keeper;
};

enum class QueuePairState : std::uint8_t { reset, ready, error };

/// Memory that peers may reach while they know its key, as far as its registration permits. Revoked when
/// destroyed: from then on no packet, however late, changes a byte of it.
class MemoryRegion {
 public:
  virtual ~MemoryRegion() = default;
  virtual RemoteKey remote_key() const noexcept = 0;
  /// What a peer must name as the remote address of the region's first byte.
  virtual std::uint64_t remote_address() const noexcept = 0;
};

class QueuePair {
 public:
  virtual ~QueuePair() = default;

  virtual QueuePairState state() const noexcept = 0;
  /// Why the queue pair is in the error state, for people; empty otherwise.
  virtual std::string error_cause() const = 0;

  /// Errors of all posts: would_block (queue full), invalid_argument, peer_failed (error state).
  virtual Result<void> post_send(const SendRequest& request) = 0;
  virtual Result<void> post_write(const WriteRequest& request) = 0;
  virtual Result<void> post_read(const ReadRequest& request) = 0;
  virtual Result<void> post_atomic(const AtomicRequest& request) = 0;
  virtual Result<void> post_receive(const ReceiveRequest& request) = 0;

  /// A hint: the peer's next WRITE that no earlier hint covers will land in `where`, of which no byte is
  /// valid yet. Providers that scatter predict with it; others ignore it. A wrong hint costs a copy and
  /// nothing else, except that bytes of `where` may be overwritten with rubbish until the real ones have
  /// arrived. Memory may be hinted again that nothing has come for; once it has, no older hint of it counts.
  /// Nor does a hint count any more when another queue pair expects or writes that memory, or when a region
  /// of it is registered or destroyed.
  virtual void expect_write(std::span<std::byte> where) = 0;

  /// The peer's next WRITE into our region `key`, if it is of where.size() bytes, lands in `where` instead of
  /// the region, and its completion says so; with an empty `where` not any longer. For memory that is known
  /// only when the peer has posted already. False: it has begun to land, or this provider places at once.
  virtual bool redirect_write(RemoteKey, std::span<std::byte>) { return false; }

  /// Lets the peer read `bytes`, which the owner leaves as they are meanwhile, without any copy: what to tell
  /// it by other ways. Nothing: this provider cannot, or only memory that make_arena() gave.
  virtual std::optional<MappingOffer> offer_mapping(std::span<const std::byte>) { return std::nullopt; }
  /// What the peer has offered. Errors: unsupported, protocol_error (it has offered no such memory).
  virtual Result<MappedMemory> map(const MappingOffer&, std::uint64_t) {
    return fail(Errc::unsupported, "nothing is seen of a peer's memory here");
  }

  /// Memory that the peer of this queue pair alone may reach: a packet that names its key is refused on every
  /// other queue pair, as if the key were wrong. The queue pair is connected; the fabric outlives the region,
  /// and the queue pair may end before it. Errors: unsupported (this provider's keys are good for all queue
  /// pairs), invalid_argument (not connected), those of Fabric::register_memory.
  virtual Result<std::unique_ptr<MemoryRegion>> register_memory(std::span<std::byte>, RemoteAccess) {
    return fail(Errc::unsupported, "this provider ties no key to a queue pair");
  }

  /// Takes up to out.size() completions in order (but see WriteRequest::unordered); returns how many.
  virtual std::size_t poll_completions(std::span<Completion> out) = 0;

  /// Beside the works: memory that both processes write, where both are on one host and know each other. It
  /// is not there yet, or never.
  virtual bool can_share_pages() const { return false; }
  /// Hands the peer `pages`, which it may write. False: not now.
  virtual bool share_pages(const memory::SharedPages&) { return false; }
  /// What the peer has handed us, once.
  virtual std::optional<memory::SharedPages> take_shared_pages() { return std::nullopt; }
  /// Null: it cannot be read, or not yet. It may outlive the queue pair.
  virtual std::shared_ptr<const PeerMemory> peer_memory() const { return nullptr; }

  virtual ConnectionBlob local_blob() const = 0;
  /// reset -> ready. Errors: protocol_error or version_mismatch (bad blob), unsupported (no common path MTU).
  virtual Result<void> connect(std::span<const std::byte> peer_blob) = 0;
};

/// What a region is for. relayed: nobody but peers writes it while it is registered, and what they wrote may
/// be sent on; a provider may then remember checksums of what arrived.
enum class MemoryUse : std::uint8_t { general, relayed };

struct QueuePairOptions {
  std::uint32_t send_depth = 256;  ///< outstanding SENDs and WRITEs
  std::uint32_t receive_depth = 512;
  Duration ack_timeout =
      milliseconds(67);  ///< 4.096 us x 2^14; between our own endpoints the measured RTT rules
  std::uint8_t retry_limit = 7;
  std::uint8_t rnr_retry_limit = 7;     ///< 7 = until rnr_patience has passed
  Duration rnr_patience = seconds(10);  ///< a peer without a posted receive is given up after it; 0 = never
  std::uint8_t max_rd_atomic = 16;      ///< READ requests and atomics under way, in each direction; 1 … 255
  bool selective_repeat = true;         ///< offered; used when the peer offers it too
  std::uint32_t path_mtu = 0;           ///< largest payload per packet; 0 = what the port's MTU allows
  /// Nobody sends this queue pair a longer SEND; 0 = not known. A NIC then receives short ones in a queue
  /// that all queue pairs share, and a peer that sends more than there are receives posted is cut off.
  std::uint32_t largest_receive = 0;
  /// False: it carries only small messages. In the software fabric they arrive at the endpoint that all
  /// share, and not at one that is kept for bulk data.
  bool bulk = true;
};

struct FabricInfo {
  std::string name;                    ///< "udp", "sim", …
  std::uint32_t path_mtu = 0;          ///< the most a queue pair of this fabric can agree to
  bool icrc = true;                    ///< of packets to our own endpoints; strangers' always have one
  bool encrypted = false;              ///< what leaves this host; nobody else can read or change it
  double carrier_copies_per_byte = 0;  ///< made on both sides below the provider, which counts its own
  /// A device knows memory by its pages: registered ones must not be exchanged for others, and a work's
  /// memory that no region covers costs a registration.
  bool pins_memory = false;
  // What all queue pairs of it can do, whatever their peers are.
  bool atomics = true;
  bool ties_keys = true;  ///< QueuePair::register_memory() works
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
  /// Memory for payload as this provider moves it best: its own kind, or like any other. Errors: those
  /// of memory::Arena.
  virtual Result<memory::Arena> make_arena(std::size_t bytes, memory::Touch touch = memory::Touch::now) {
    return memory::Arena::make(bytes, touch);
  }

  /// Sends, receives and runs timers; returns how much was done (0 = nothing). What is received is answered
  /// by the next call, together with what the caller has posted meanwhile.
  virtual std::size_t progress(Time now) = 0;
  /// When progress must be called even if nothing arrives.
  virtual Time next_deadline() const = 0;
  /// The caller found nothing to do and is about to look again at once: others may need the core.
  virtual void pause() {}
  virtual void wait(Time deadline) = 0;
  virtual void wake() noexcept = 0;

  // In wait()'s place, for a caller that watches descriptors itself (epoll, poll, io_uring).

  /// One of them becomes readable when wait() would return, but for the deadline. To be watched for edges
  /// (EPOLLET). Errors: unsupported; those of making them.
  virtual Result<std::vector<int>> wait_descriptors() {
    return fail(Errc::unsupported, "nothing shows when this fabric has something to do");
  }
  /// Before the caller waits: until when it may, at most `deadline`. A time that has passed: there is
  /// something to do. Before the next progress() comes finish_wait().
  virtual Time prepare_wait(Time) { return Time{}; }
  virtual void finish_wait() {}
  /// Payload bytes that this process copied so far, beside what the kernel's sockets do.
  virtual std::uint64_t bytes_copied() const = 0;
};

}  // namespace rdmc::fabric
