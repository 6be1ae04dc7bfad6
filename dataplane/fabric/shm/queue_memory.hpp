// The memory that the two ends of a queue pair share. Each end has one QueueMemory. Only this end writes it,
// and the peer maps it read-only. An end publishes its requests there, and also the state of the peer's
// requests. So no peer can overwrite this side's indexes, but a hostile peer can write wrong values into its
// own memory. The reader therefore reads each value once and then checks it.
//
// Counts are modulo 2^32. The ring buffer of requests has only kSlots slots, so a count is never ambiguous.
// Each group of fields that one side writes together has a cache line of its own.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace rdmc::fabric::shm {

inline constexpr std::uint32_t kSlots = 256;
/// The space for the staged payload of requests, and the separate space for answers.
inline constexpr std::size_t kStagingBytes = 256 << 10;
inline constexpr std::size_t kAnswerBytes = 64 << 10;

enum class Operation : std::uint8_t { send = 1, write, read, compare_swap, fetch_add };

/// The location of a request's payload.
enum class Source : std::uint8_t {
  staged =
      1,    ///< In the QueueMemory of the request, at the offset `where`. Each side copies the payload once.
  arena,    ///< In the arena with the number `arena`, which the peer maps, at the offset `where`.
  process,  ///< In the address space of the requester's process, at the address `where`.
};

inline constexpr std::uint8_t kHasImmediate = 1, kInvalidates = 2;

/// A request, or one piece of a request whose payload does not fit the staging memory at once. The pieces
/// follow each other in the order of their offsets. A RequestSlot is one cache line long.
struct RequestSlot {
  Operation operation{};
  Source source{};
  std::uint8_t flags = 0;  ///< The flags, which are the same in all pieces of a request.
  std::uint8_t reserved = 0;
  std::uint32_t bytes = 0;  ///< The length of this piece.
  /// The length of all pieces together. For a READ, the number of bytes that it requests.
  std::uint32_t message_bytes = 0;
  std::uint32_t offset = 0;     ///< The offset of this piece in the message.
  std::uint32_t immediate = 0;  ///< The immediate, or the key to invalidate.
  std::uint32_t key = 0;
  std::uint64_t remote_address = 0;  ///< The remote address of the first byte of the whole message.
  std::uint32_t arena = 0;
  std::uint32_t reserved_too = 0;
  std::uint64_t where = 0;
  std::uint64_t operand = 0, compare = 0;  ///< The operands of an atomic.
};
static_assert(sizeof(RequestSlot) == 64 && std::is_trivially_copyable_v<RequestSlot>);

/// The reason why a request was refused. The reasons correspond to RC's NAK codes.
enum class Refusal : std::uint32_t { none, invalid_request, remote_access };

/// How a queue pair ended.
enum class Closed : std::uint32_t {
  open,
  left,    ///< The queue pair was destroyed. This is no failure for a peer that has no requests in flight.
  failed,  ///< The queue pair is in the error state.
};

struct QueueControl {
  /// The number of requests published so far.
  alignas(64) std::atomic<std::uint32_t> posted{0};

  /// The number of the peer's requests that are done. If `refused` is not none, the next request is refused
  /// and no further one is done. `refused` is written after `handled`.
  alignas(64) std::atomic<std::uint32_t> handled{0};
  std::atomic<std::uint32_t> refused{0};
  /// Grows while this side works on the peer's requests, and while the peer's next request waits for a
  /// receive. The peer regards this as a sign of life.
  std::atomic<std::uint32_t> pulse{0};
  /// 1 if the peer's next request waits for a receive to be posted.
  std::atomic<std::uint32_t> not_ready{0};

  /// The number of pieces of answers published so far. A piece consists of bytes of a READ, or of the
  /// original value of an atomic, and is in `answer`. There is only one piece at a time. It always belongs to
  /// the request with the number `handled`.
  alignas(64) std::atomic<std::uint32_t> answered{0};
  std::atomic<std::uint32_t> answer_bytes{0};

  /// The number of pieces of the peer's answers that this side has copied.
  alignas(64) std::atomic<std::uint32_t> answers_taken{0};
  /// If the requester sleeps, it wants to be woken when the peer's `handled` reaches this value, or when no
  /// more of its requests will be done for now.
  std::atomic<std::uint32_t> wake_at{0};

  /// A Closed value. If it is not `open`, the memory that this side's requests name may change at any time.
  alignas(64) std::atomic<std::uint32_t> closed{0};
  /// 1 if the owner can read the peer's address space.
  std::atomic<std::uint32_t> reads_processes{0};
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

struct QueueMemory {
  QueueControl control;
  std::array<RequestSlot, kSlots> slots;
  alignas(64) std::array<std::byte, kStagingBytes> staging;
  alignas(64) std::array<std::byte, kAnswerBytes> answer;
};

}  // namespace rdmc::fabric::shm
