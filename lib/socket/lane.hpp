// A lane carries the bytes of one direction of one connection between two processes of a host. A lane is a
// ring buffer in memory that both processes have mapped. The threads that send and receive copy into the ring
// buffer and out of it themselves. The peer needs no fabric thread, record or lock for this, and the kernel
// is called only to wake a sleeping thread. Both processes can write to all of the memory. So each end trusts
// only its own counts, and checks the counts of the peer. A malicious peer can do no more than any peer can
// do: send other bytes, or none. No I/O except this memory and futex calls. At each end, only one thread may
// use the lane at a time. tests/model runs both ends in all interleavings.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "dataplane/base/atomic.hpp"
#include "dataplane/fabric/peer_memory.hpp"

namespace rdmc::sockets {

/// One end of a lane uses its bell to request how it is informed when the other end has done something.
struct LaneBell {
  /// A futex word. It is 1 if a thread sleeps on it or has slept on it.
  Atomic<std::uint32_t> asleep{0};
  /// This is 1 if no thread sleeps, but the other end must send a record.
  Atomic<std::uint32_t> by_record{0};
};

/// An advert: an offer of bytes in the writer's own memory, which follow the bytes in the ring buffer. The
/// writer's call waits meanwhile. The reader copies the bytes from the writer's memory until the writer
/// cancels the advert. (SDP calls this SrcAvail.)
struct LaneAdvert {
  /// The upper half counts the adverts. The lower half is the number of bytes of this advert that are left.
  /// When the reader has copied bytes, it claims them by exchanging this value. The writer cancels the advert
  /// by exchanging this value.
  Atomic<std::uint64_t> terms{0};
  Atomic<std::uint64_t> end{0};        ///< the address of the end of the bytes, in the writer's process
  Atomic<std::uint32_t> is_wanted{0};  ///< 1 if the reader wants adverts
};

struct LaneHead {
  alignas(64) Atomic<std::uint64_t> written{0};  ///< the number of bytes that were ever written
  alignas(64) Atomic<std::uint64_t> read{0};     ///< the number of bytes that were ever read
  alignas(64) LaneBell reader;
  alignas(64) LaneBell writer;
  /// This is 1 if the lane has no reader. Then the writer may use the lane for another connection.
  Atomic<std::uint32_t> left{1};
  alignas(64) LaneAdvert advert;
};
static_assert(Atomic<std::uint64_t>::is_always_lock_free);

/// The memory of a lane, and the owner that keeps it mapped. The size of the ring buffer is a power of two.
struct LaneMemory {
  std::shared_ptr<const void> owner;
  LaneHead* head = nullptr;
  std::span<std::byte> ring;
  /// The memory of the process at the other end, or null if it cannot be read.
  std::shared_ptr<const fabric::PeerMemory> peer = nullptr;
};

/// The type of a function that wakes the threads that sleep on a bell's word, by the kernel's futex or by a
/// test's replacement.
using Wake = void (*)(Atomic<std::uint32_t>& word) noexcept;
void wake_sleepers(Atomic<std::uint32_t>& word) noexcept;

/// Wakes the thread at the other end if it sleeps. Must be called after something was published. No wake-up
/// is lost: a thread sets the word, checks once more for what it waits for, and only then sleeps.
void ring_bell(LaneBell& bell, Wake wake) noexcept;

class LaneWriter {
 public:
  static constexpr std::size_t kMostAdvertised = 1 << 30;

  explicit LaneWriter(LaneMemory memory, Wake wake = wake_sleepers);

  /// Copies as many bytes as there is space for, and returns their number. One call copies at most the size
  /// of the ring buffer. Otherwise it might never end, because a fast reader keeps freeing space. Writes
  /// nothing while an advert is open.
  std::size_t write(std::span<const std::byte> bytes);
  std::size_t room();
  /// True if a third of the ring buffer is free, as in TCP, and no advert is open.
  bool is_writable() { return !is_advertising() && room() >= memory_.ring.size() / 3; }

  /// True if the reader wants to copy bytes from the writer's memory.
  bool may_advertise() const { return memory_.head->advert.is_wanted.load() != 0; }
  bool is_advertising() const { return !advertised_.empty(); }
  /// Advertises `bytes`, at most kMostAdvertised of them. They must stay unchanged until all of them are
  /// collected, or until cancel(). Copies as much of `next` to the ring buffer as there is space for, to
  /// follow `bytes` directly. Returns how many bytes of `next` were copied.
  std::size_t advertise(std::span<const std::byte> bytes, std::span<const std::byte> next);
  /// Returns how many bytes the reader has accepted since the last call. The advertised bytes count first,
  /// then the copied part of `next`.
  std::size_t collect();
  /// Withdraws the advert. Returns the same as collect(). After this call, the reader gets no more of the
  /// advertised bytes.
  std::size_t cancel();
  /// True if the reader requests a record when there is something to read.
  bool reader_wants_record() const { return memory_.head->reader.by_record.load() != 0; }
  LaneBell& bell() const { return memory_.head->writer; }
  /// True if the writer should try again: either the ring buffer has space and no advert is open, or the
  /// reader has declined the open advert. Any thread may call this while it keeps the memory mapped.
  static bool has_room(const LaneMemory& memory);
  const LaneMemory& memory() const { return memory_; }

 private:
  std::size_t take(std::uint64_t terms);
  void put(std::size_t ahead, std::span<const std::byte> bytes);
  void publish(std::size_t count);

  LaneMemory memory_;
  Wake wake_;
  std::uint64_t written_ = 0, read_ = 0;
  std::uint32_t adverts_ = 0;
  std::span<const std::byte> advertised_;  // advertised and not collected
  std::size_t ahead_ = 0;                  // copied into the ring buffer and not published
};

/// Bytes that a writer advertises, as the reader has seen the advert. The reader copies them by
/// PeerMemory::read(). This may take long, so the caller must not hold a lock.
struct LentBytes {
  std::shared_ptr<const fabric::PeerMemory> memory;
  std::uint64_t address = 0;
  std::size_t count = 0;
  std::uint64_t terms = 0;
  bool is_all = false;  ///< true if these are all bytes that the reader wants now
};

class LaneReader {
 public:
  /// The most bytes that are copied from the writer's memory at once. The writer may cancel between two such
  /// copies.
  static constexpr std::size_t kMostLent = 1 << 20;

  explicit LaneReader(LaneMemory memory, Wake wake = wake_sleepers);
  ~LaneReader();
  LaneReader(const LaneReader&) = delete;
  LaneReader& operator=(const LaneReader&) = delete;

  /// Copies bytes from the ring buffer to `out`: all of them, or as many as fit. With `peek`, the bytes stay
  /// in the ring buffer. Returns 0 if the ring buffer is empty or the writer's count is impossible.
  std::size_t read(std::span<std::byte> out, bool peek);
  /// Returns at most `most` of the bytes that the writer advertises after the bytes in the ring buffer.
  /// Returns nullopt if there is no advert. Also returns nullopt if the ring buffer contains anything except
  /// the `peeked` bytes that the caller has peeked at.
  std::optional<LentBytes> lent(std::size_t most, std::size_t peeked = 0);
  /// Must be called when the first `count` of these bytes were copied, or with 0 if no byte could be copied.
  /// Returns how many of the copied bytes are valid: none if the writer has cancelled the advert meanwhile.
  std::size_t settle(const LentBytes& lent, std::size_t count, bool peek);
  /// Asks the writer to write the advertised bytes to the ring buffer itself. The writer may advertise again
  /// when some of these bytes were read.
  void decline();
  /// Returns false if there is no advert. This check is cheaper than lent().
  bool may_be_lent() const {
    return memory_.peer != nullptr && static_cast<std::uint32_t>(memory_.head->advert.terms.load()) != 0;
  }
  std::size_t available() { return in_ring() + advertised(memory_.head->advert.terms.load()); }
  /// Returns how many of the available bytes stay available, whatever the writer does.
  std::size_t in_ring();
  /// After refuse(), no more bytes are read. After refuse_after(), only the bytes that are in the ring buffer
  /// now are read. has_refused() is true if the writer has written more than that.
  void refuse() { end_ = std::min(end_, read_); }
  void refuse_after() { end_ = std::min(end_, read_ + in_ring()); }
  bool has_refused() const;
  /// True if the writer's count is impossible. Then no bytes are read any more.
  bool is_broken() const { return is_broken_; }
  /// True if the writer requests a record now that there is space again. Clears the request.
  bool take_writer_wants_record();
  LaneBell& bell() const { return memory_.head->reader; }
  /// True if there is something to read. Any thread may call this while it keeps the memory mapped.
  static bool has_bytes(const LaneMemory& memory);
  const LaneMemory& memory() const { return memory_; }

 private:
  bool is_roomy() const;
  std::size_t advertised(std::uint64_t terms) const;

  LaneMemory memory_;
  Wake wake_;
  std::uint64_t read_ = 0, end_ = UINT64_MAX;
  bool is_broken_ = false, has_declined_ = false;
};

}  // namespace rdmc::sockets
