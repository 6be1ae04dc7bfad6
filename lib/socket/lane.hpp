// A lane carries the bytes of one direction of one connection between two processes of a host. It is a ring
// in memory that both processes have mapped. The threads that send and receive copy into it and out of it
// themselves. No fabric thread, no record and no lock of the peer is involved, and the kernel is called only
// to wake a sleeper. Both processes can write all of the memory, so each end trusts only its own counts and
// checks those of the other end. The worst that a peer can do is what it may do in any case: send other
// bytes, or none. No I/O except this memory and futex calls. One thread at a time at each end.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "dataplane/fabric/peer_memory.hpp"

namespace rdmc::sockets {

/// How one end wants to be told what the other end does.
struct LaneBell {
  /// A futex word. 1 if a thread sleeps on it, or has slept on it.
  std::atomic<std::uint32_t> asleep{0};
  /// 1 if no thread sleeps, but the other end must send a record.
  std::atomic<std::uint32_t> by_record{0};
};

/// An advert: bytes that follow those in the ring and are in the writer's own memory while its call waits.
/// The reader takes them from there until the writer cancels. (SDP calls this SrcAvail.)
struct LaneAdvert {
  /// The upper half counts the adverts; the lower half is the number of bytes of this advert that are left.
  /// After the reader has copied bytes, it takes them by exchanging this value. The writer cancels the advert
  /// by exchanging it.
  std::atomic<std::uint64_t> terms{0};
  std::atomic<std::uint64_t> end{0};        ///< the address of their end in the writer's process
  std::atomic<std::uint32_t> is_wanted{0};  ///< 1 if the reader wants adverts
};

struct LaneHead {
  alignas(64) std::atomic<std::uint64_t> written{0};  ///< the number of bytes ever written
  alignas(64) std::atomic<std::uint64_t> read{0};     ///< the number of bytes ever read
  alignas(64) LaneBell reader;
  alignas(64) LaneBell writer;
  /// 1 if the lane has no reader. Then the writer may use the lane anew.
  std::atomic<std::uint32_t> left{1};
  alignas(64) LaneAdvert advert;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// The memory of a lane, and the owner that keeps it mapped. The size of the ring is a power of two.
struct LaneMemory {
  std::shared_ptr<const void> owner;
  LaneHead* head = nullptr;
  std::span<std::byte> ring;
  /// The memory of the process at the other end, or null if it cannot be read.
  std::shared_ptr<const fabric::PeerMemory> peer = nullptr;
};

/// Wakes the threads that sleep on a bell's word: by the kernel's futex, or by a test's replacement.
using Wake = void (*)(std::atomic<std::uint32_t>& word) noexcept;
void wake_sleepers(std::atomic<std::uint32_t>& word) noexcept;

/// Must be called after something was published. Wakes the thread at the other end if it sleeps. No wake-up
/// is lost, because a thread sets the word, looks once more, and only then sleeps.
void ring_bell(LaneBell& bell, Wake wake) noexcept;

class LaneWriter {
 public:
  static constexpr std::size_t kMostAdvertised = 1 << 30;

  explicit LaneWriter(LaneMemory memory, Wake wake = wake_sleepers);

  /// Copies as many bytes as there is room for, but at most the ring's size, because a fast reader could make
  /// room for ever. Returns their number. Writes nothing while an advert is open.
  std::size_t write(std::span<const std::byte> bytes);
  std::size_t room();
  /// True if a third of the ring is free, as in TCP.
  bool is_writable() { return !is_advertising() && room() >= memory_.ring.size() / 3; }

  /// True if the reader wants to take bytes from the writer's memory.
  bool may_advertise() const { return memory_.head->advert.is_wanted.load() != 0; }
  bool is_advertising() const { return !advertised_.empty(); }
  /// Advertises `bytes`, at most kMostAdvertised. They must stay unchanged until all are collected, or until
  /// cancel(). Copies as much of `next` as there is room for, so that it follows `bytes` at once. Returns how
  /// many bytes of `next` were copied.
  std::size_t advertise(std::span<const std::byte> bytes, std::span<const std::byte> next);
  /// Returns how many bytes have gone since the last call. The advertised bytes come first, then the copied
  /// part of `next`.
  std::size_t collect();
  /// Returns the same as collect(). After this call, no more of the advertised bytes go.
  std::size_t cancel();
  /// True if the reader wants a record when there is something to read.
  bool reader_wants_record() const { return memory_.head->reader.by_record.load() != 0; }
  LaneBell& bell() const { return memory_.head->writer; }
  /// True if the writer should try again: the ring has room and no advert is open, or the reader has declined
  /// the open advert. Any thread may call this while the memory is held.
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
  std::size_t ahead_ = 0;                  // in the ring and not published
};

/// Bytes that a writer advertises, as the reader has seen them. The reader copies them by PeerMemory::read(),
/// which may take long, so the caller must not hold a lock.
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

  /// Copies as many bytes as the ring has and `out` holds; with `peek` they stay in the ring. Returns 0 if
  /// the ring is empty or the writer's count is impossible.
  std::size_t read(std::span<std::byte> out, bool peek);
  /// Returns at most `most` of the bytes that the writer advertises after the bytes in the ring. Returns
  /// nullopt if there is no advert, or if the ring holds anything except the `peeked` bytes that the caller
  /// has peeked at.
  std::optional<LentBytes> lent(std::size_t most, std::size_t peeked = 0);
  /// The first `count` of these bytes were copied; 0 means that none could be copied. Returns how many of
  /// them count: none if the writer has cancelled meanwhile.
  std::size_t settle(const LentBytes& lent, std::size_t count, bool peek);
  /// Asks the writer to send a copy of what it advertises now. It may advertise again when some of that copy
  /// was read.
  void decline();
  /// Returns false if there is no advert. Cheaper than lent().
  bool may_be_lent() const {
    return memory_.peer != nullptr && static_cast<std::uint32_t>(memory_.head->advert.terms.load()) != 0;
  }
  std::size_t available() { return in_ring() + advertised(memory_.head->advert.terms.load()); }
  /// How many of the available bytes stay available, whatever the writer does.
  std::size_t in_ring();
  /// refuse(): no more bytes are read. refuse_after(): no bytes are read after those in the ring. A writer
  /// that writes more is refused.
  void refuse() { end_ = std::min(end_, read_); }
  void refuse_after() { end_ = std::min(end_, read_ + in_ring()); }
  bool has_refused() const;
  /// True if the writer's count is impossible. Then nothing is read any more.
  bool is_broken() const { return is_broken_; }
  /// True if the writer wants a record now that there is room again. Clears the request.
  bool take_writer_wants_record();
  LaneBell& bell() const { return memory_.head->reader; }
  /// True if there is something to read. Any thread may call this while the memory is held.
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
