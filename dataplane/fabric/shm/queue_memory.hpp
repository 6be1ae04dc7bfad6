// What the two ends of a queue pair share: one QueueMemory each, written by its owner alone and mapped
// read-only by the peer. An end publishes requests in its own memory and the state of its answers to the
// peer's requests there, too; so no index of ours can be overwritten, and all that a peer can do is to lie in
// its own memory. Whoever reads it therefore takes each value once and checks it.
//
// A count never wraps back over what is under way: counts are modulo 2^32, rings hold kSlots. Each group of
// fields that one side writes together has a cache line of its own.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace rdmc::fabric::shm {

inline constexpr std::uint32_t kSlots = 256;
/// Payload on its way through this memory: requests' and, separately, answers'.
inline constexpr std::size_t kStagingBytes = 256 << 10;
inline constexpr std::size_t kAnswerBytes = 64 << 10;

enum class Operation : std::uint8_t { send = 1, write, read, compare_swap, fetch_add };

/// Where the payload of a request lies.
enum class Source : std::uint8_t {
  staged = 1,  ///< in this memory, at `where`: copied once by each side
  arena,       ///< in the arena with number `arena`, which the peer maps, at `where`
  process,     ///< in the owner's address space, at `where`
};

inline constexpr std::uint8_t kHasImmediate = 1, kInvalidates = 2;

/// A request, or a piece of one whose payload did not fit the staging memory at once: pieces follow each
/// other in the order of their offsets. A cache line.
struct RequestSlot {
  Operation operation{};
  Source source{};
  std::uint8_t flags = 0;  ///< the same in all pieces
  std::uint8_t reserved = 0;
  std::uint32_t bytes = 0;          ///< of this piece
  std::uint32_t message_bytes = 0;  ///< of all pieces; of a READ what it asks for
  std::uint32_t offset = 0;         ///< of this piece in the message
  std::uint32_t immediate = 0;      ///< or the key to invalidate
  std::uint32_t key = 0;
  std::uint64_t remote_address = 0;  ///< of the message's first byte
  std::uint32_t arena = 0;
  std::uint32_t reserved_too = 0;
  std::uint64_t where = 0;
  std::uint64_t operand = 0, compare = 0;  ///< of atomics
};
static_assert(sizeof(RequestSlot) == 64 && std::is_trivially_copyable_v<RequestSlot>);

/// Why a request was refused; RC's NAK codes.
enum class Refusal : std::uint32_t { none, invalid_request, remote_access };

/// How a queue pair ended.
enum class Closed : std::uint32_t {
  open,
  left,    ///< destroyed; whoever has nothing more to say to it need not mind
  failed,  ///< in the error state
};

struct QueueControl {
  /// Requests published so far.
  alignas(64) std::atomic<std::uint32_t> posted{0};

  /// Of the peer's requests: how many are done. If `refused` is not none, the next one is, and nothing will
  /// follow; it is written after `handled`.
  alignas(64) std::atomic<std::uint32_t> handled{0};
  std::atomic<std::uint32_t> refused{0};
  /// Grows while the peer's requests are being worked on, and while the next one waits for a receive: a sign
  /// of life for its patience.
  std::atomic<std::uint32_t> pulse{0};
  /// The next request waits for a receive to be posted.
  std::atomic<std::uint32_t> not_ready{0};

  /// Pieces of answers published so far: bytes of a READ, or an atomic's original value, in `answer`. One at
  /// a time, always for the request numbered `handled`.
  alignas(64) std::atomic<std::uint32_t> answered{0};
  std::atomic<std::uint32_t> answer_bytes{0};

  /// Of the peer's pieces of answers: how many were taken.
  alignas(64) std::atomic<std::uint32_t> answers_taken{0};
  /// A sleeper wants to be woken when so many of its requests are handled, or no more will be for now.
  std::atomic<std::uint32_t> wake_at{0};

  /// A Closed; of all but `open`: the memory that its requests name may change from here on.
  alignas(64) std::atomic<std::uint32_t> closed{0};
  /// The owner can read the peer's address space.
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
