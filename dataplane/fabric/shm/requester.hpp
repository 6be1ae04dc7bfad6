// The requester of a shm queue pair. It turns posted work requests into requests in its own QueueMemory, and
// the peer's counts into completions. It is a core: apart from the memory that it shares with the peer, it
// does no I/O, and it has no clock. All values that the peer writes are checked, and a wrong value ends the
// queue pair. Owned by a ShmQueuePair, and used by one thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "dataplane/fabric/queue_pair.hpp"
#include "dataplane/fabric/shm/payload_source.hpp"
#include "dataplane/fabric/shm/queue_memory.hpp"
#include "dataplane/roce/fixed_ring.hpp"

namespace rdmc::fabric::shm {

struct Work {
  std::uint64_t work_id = 0;
  WorkKind kind = WorkKind::send;
  RequestSlot request;               ///< The request, except the fields that describe a piece.
  std::span<const std::byte> bytes;  ///< The payload to send.
  std::span<std::byte> target;       ///< The memory that the answer to a READ fills.
};

class Requester {
 public:
  using Completions = roce::FixedRing<Completion>;

  /// Payload up to this size is staged, because two copies in the cache cost less than any other method.
  static constexpr std::size_t kAlwaysStaged = 4096;
  static constexpr std::size_t kStagedPiece = 32 << 10;

  /// Precondition: `done` has space for the completion of each work request.
  Requester(QueueMemory& ours, PayloadSource& payload, Completions& done, std::uint32_t depth)
      : ours_(ours), payload_(payload), done_(done), works_(depth) {}

  /// Must be called when the peer's memory is mapped. From then on, requests are published.
  void attach(const QueueMemory& peers) { peers_ = &peers; }

  /// Adds a work request, and publishes as much as possible. The caller must not have more than `depth` work
  /// requests in flight.
  void post(const Work& work);
  /// Completes the work requests that the peer has done, and publishes more. Returns a measure of the work
  /// done.
  std::size_t turn();
  /// Completes all work requests in flight: the oldest with `status`, the others as flushed.
  void fail(WorkStatus status);

  /// The number of slots published so far, modulo 2^32. is_handled() returns true if the peer has done that
  /// number of slots.
  std::uint32_t posted() const { return posted_; }
  bool is_handled(std::uint32_t slots) const { return static_cast<std::int32_t>(handled_ - slots) >= 0; }
  bool idle() const { return works_.empty(); }
  /// The rule that the peer broke; empty if the peer broke none.
  std::string_view fault() const { return fault_; }
  /// The status of a refused work request; success if none was refused.
  WorkStatus refusal() const { return refusal_; }

  /// True if the peer has done something since the last turn.
  bool has_news() const;
  /// True if something was published, or a piece of an answer was copied, since the last call.
  bool take_published() { return std::exchange(published_, false); }
  /// Sets the condition under which the peer wakes this side. Must be called before this side sleeps.
  void ask_to_be_woken();
  std::uint64_t bytes_copied() const { return bytes_copied_; }

 private:
  struct Posted {
    Work work;
    // The value of `posted_` after the newest piece of this work request was published.
    std::uint32_t end = 0;
    // The number of bytes published so far; for a READ or atomic, the number of bytes of the answer that have
    // arrived.
    std::uint32_t piece_offset = 0;
    bool published = false;      // True if all pieces are published.
    std::uint64_t original = 0;  // For an atomic: the value before the operation.
    /// The memory for the answer; empty if the request has none.
    std::span<std::byte> target() {
      return work.kind == WorkKind::atomic ? std::as_writable_bytes(std::span(&original, 1)) : work.target;
    }
  };

  std::size_t publish();
  bool publish_piece(Posted& posted);
  std::byte* stage(std::size_t bytes);
  std::size_t complete();
  bool take_answer();
  void push(const Posted& posted, WorkStatus status);

  QueueMemory& ours_;
  const QueueMemory* peers_ = nullptr;
  PayloadSource& payload_;
  Completions& done_;
  roce::FixedRing<Posted> works_;
  std::uint64_t next_ = 0;    // The work request to be published next.
  std::uint32_t posted_ = 0;  // The number of slots published.
  // The number of slots that are done, as the peer last reported.
  std::uint32_t handled_ = 0;
  std::uint32_t answers_taken_ = 0;  // The number of pieces of answers that were copied.
  std::uint64_t staged_ = 0;         // The bytes of staging memory used so far, including gaps.
  std::uint64_t staged_free_ = 0;    // The number of bytes counted in `staged_` that are free again.
  // For each slot, the value of `staged_` when the slot was published. When the peer has done the slot, the
  // staging memory before this position is free.
  std::array<std::uint64_t, kSlots> staged_until_{};
  bool published_ = false;
  std::string_view fault_;
  WorkStatus refusal_ = WorkStatus::success;
  std::uint64_t bytes_copied_ = 0;
};

}  // namespace rdmc::fabric::shm
