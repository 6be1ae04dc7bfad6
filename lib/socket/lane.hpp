// The bytes of one direction of one connection between two processes of a host: a ring in memory that both
// have mapped. The threads that send and receive copy into it and out of it themselves; no engine, record or
// lock of the peer's is in between, and the kernel is asked only to wake who sleeps. Both processes can write
// all of it, so either trusts nothing but its own counts: what the other's say is checked, and the worst that
// a peer can do is what it may do anyway, send other bytes, or none. Pure but for that memory; one thread at
// a time at either end.
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

/// How one end wants to hear of what the other does.
struct LaneBell {
  std::atomic<std::uint32_t> asleep{0};     ///< a futex: 1, somebody sleeps on it, or did
  std::atomic<std::uint32_t> by_record{0};  ///< 1: nobody sleeps, but a record is to say so
};

/// Bytes that follow those in the ring, in the writer's own memory, while its call waits: the reader takes
/// them from there, as far as it gets before the writer cancels. (SDP calls it SrcAvail.)
struct LaneAdvert {
  /// How many there have been, and in the lower half how many bytes of this one are left. The reader takes
  /// some by exchanging it after it has copied them; the writer cancels by exchanging it.
  std::atomic<std::uint64_t> terms{0};
  std::atomic<std::uint64_t> end{0};        ///< where they end, as the writer's process has it
  std::atomic<std::uint32_t> is_wanted{0};  ///< 1: the reader can read there
};

struct LaneHead {
  alignas(64) std::atomic<std::uint64_t> written{0};  ///< bytes, by the writer, ever
  alignas(64) std::atomic<std::uint64_t> read{0};     ///< bytes, by the reader, ever
  alignas(64) LaneBell reader;
  alignas(64) LaneBell writer;
  std::atomic<std::uint32_t> left{1};  ///< 1: no reader, any more; the writer may use it anew
  alignas(64) LaneAdvert advert;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// A lane's memory, and what keeps it mapped. The ring's size is a power of two.
struct LaneMemory {
  std::shared_ptr<const void> owner;
  LaneHead* head = nullptr;
  std::span<std::byte> ring;
  std::shared_ptr<const fabric::PeerMemory> peer = nullptr;  ///< of the process at the other end; null: none
};

/// Wakes whoever sleeps on a bell's word; the kernel's futex, or a test's stand-in.
using Wake = void (*)(std::atomic<std::uint32_t>& word) noexcept;
void wake_sleepers(std::atomic<std::uint32_t>& word) noexcept;

/// After something was published: wakes the one at the other end if it sleeps. No wake-up is lost: who goes
/// to sleep sets the word before the last look.
void ring_bell(LaneBell& bell, Wake wake) noexcept;

class LaneWriter {
 public:
  static constexpr std::size_t kMostAdvertised = 1 << 30;

  explicit LaneWriter(LaneMemory memory, Wake wake = wake_sleepers);

  /// Copies as much as there is room for, at most as much as the ring holds: a reader that keeps up makes
  /// room for ever. Returns how much; none while something is advertised.
  std::size_t write(std::span<const std::byte> bytes);
  std::size_t room();
  /// As TCP's: a third of it is free.
  bool is_writable() { return !is_advertising() && room() >= memory_.ring.size() / 3; }

  /// Whether the reader would take them where they are.
  bool may_advertise() const { return memory_.head->advert.is_wanted.load() != 0; }
  bool is_advertising() const { return !advertised_.empty(); }
  /// `bytes`, at most kMostAdvertised, stay as they are until all are collected, or cancel(). `next` is
  /// copied meanwhile, as far as there is room, to follow them at once; returns how much of it.
  std::size_t advertise(std::span<const std::byte> bytes, std::span<const std::byte> next);
  /// How many bytes have gone since it was last asked, of what was advertised and, after that, of `next`.
  std::size_t collect();
  /// The same; from now on none goes that has not gone by then.
  std::size_t cancel();
  /// The reader wants a record that there is something to read.
  bool reader_wants_record() const { return memory_.head->reader.by_record.load() != 0; }
  LaneBell& bell() const { return memory_.head->writer; }
  /// Any thread, while the memory is held: something has changed since the writer looked last.
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
  std::span<const std::byte> advertised_;  // and not collected
  std::size_t ahead_ = 0;                  // in the ring, not published
};

/// Bytes that a writer advertises, as the reader has seen them: to be copied by PeerMemory::read(), which may
/// take long and so is no business of whoever holds a lock.
struct LentBytes {
  std::shared_ptr<const fabric::PeerMemory> memory;
  std::uint64_t address = 0;
  std::size_t count = 0;
  std::uint64_t terms = 0;
  bool is_all = false;  ///< that the reader wants for now
};

class LaneReader {
 public:
  /// Copied from the writer's memory at once: it may cancel between two pieces.
  static constexpr std::size_t kMostLent = 1 << 20;

  explicit LaneReader(LaneMemory memory, Wake wake = wake_sleepers);
  ~LaneReader();
  LaneReader(const LaneReader&) = delete;
  LaneReader& operator=(const LaneReader&) = delete;

  /// Copies as much as there is in the ring; `peek`: and leaves it. 0: nothing is there, or what the writer
  /// says cannot be.
  std::size_t read(std::span<std::byte> out, bool peek);
  /// What the writer advertises behind what is in the ring, at most `most` bytes of it. Nothing: there is no
  /// advert, or the ring holds anything but the `peeked` bytes that the caller has peeked at.
  std::optional<LentBytes> lent(std::size_t most, std::size_t peeked = 0);
  /// The first `count` of these bytes have been copied; 0: none could be. How many of them count: none if the
  /// writer has cancelled meanwhile.
  std::size_t settle(const LentBytes& lent, std::size_t count, bool peek);
  /// The writer is to send a copy of what it advertises now. It may advertise again when some of that copy
  /// has been read.
  void decline();
  /// Cheaper than lent(): false when there is no advert.
  bool may_be_lent() const {
    return memory_.peer != nullptr && static_cast<std::uint32_t>(memory_.head->advert.terms.load()) != 0;
  }
  std::size_t available() { return in_ring() + advertised(memory_.head->advert.terms.load()); }
  /// Of those, the ones that are there whatever the writer does.
  std::size_t in_ring();
  /// Nothing is to be read beyond what has been read, or `after` what is in the ring: who writes on is
  /// refused.
  void refuse() { end_ = std::min(end_, read_); }
  void refuse_after() { end_ = std::min(end_, read_ + in_ring()); }
  bool has_refused() const;
  /// The writer counts bytes that cannot be there; nothing is read any more.
  bool is_broken() const { return is_broken_; }
  /// The writer wants a record that there is room again; asked once, and said once.
  bool take_writer_wants_record();
  LaneBell& bell() const { return memory_.head->reader; }
  /// As LaneWriter::has_room: there is something to read.
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
