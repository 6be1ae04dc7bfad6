// The requester of a shm queue pair. It turns posted work requests into requests in its own QueueMemory, and
// the peer's counts into completions. It is a core: apart from the memory that it shares with the peer, it
// does no I/O, and it has no clock. All values that the peer writes are checked, and a wrong one ends the
// queue pair. Owned by a ShmQueuePair; one thread.
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
  RequestSlot request;               ///< The request, without the fields of its pieces.
  std::span<const std::byte> bytes;  ///< The payload to send.
  std::span<std::byte> target;       ///< The memory that a READ fills.
};

class Requester {
 public:
  using Completions = roce::FixedRing<Completion>;

  /// Payload up to this size is staged, because two copies in the cache cost less than any other way.
  static constexpr std::size_t kAlwaysStaged = 4096;
  static constexpr std::size_t kStagedPiece = 32 << 10;

  /// Precondition: `done` has space for the completion of each work request.
  Requester(QueueMemory& ours, PayloadSource& payload, Completions& done, std::uint32_t depth)
      : ours_(ours), payload_(payload), done_(done), works_(depth) {}

  /// Called when the peer's memory is mapped. From then on, requests are published.
  void attach(const QueueMemory& peers) { peers_ = &peers; }

  /// Publishes as much as possible. The caller must not exceed `depth` work requests in flight.
  void post(const Work& work);
  /// Completes what the peer has done, and publishes more. Returns how much was done.
  std::size_t turn();
  /// Completes everything in flight: the oldest work request with `status`, the others as flushed.
  void fail(WorkStatus status);

  /// The slots published so far, modulo 2^32. is_handled() is true if the peer has done this number of them.
  std::uint32_t posted() const { return posted_; }
  bool is_handled(std::uint32_t slots) const { return static_cast<std::int32_t>(handled_ - slots) >= 0; }
  bool idle() const { return works_.empty(); }
  /// The rule that the peer broke; empty if it broke none.
  std::string_view fault() const { return fault_; }
  /// The status of a refused work request; success if none was refused.
  WorkStatus refusal() const { return refusal_; }

  /// True if the peer has done something since the last turn.
  bool has_news() const;
  /// True if something was published, or an answer taken, since the last call.
  bool take_published() { return std::exchange(published_, false); }
  /// Must be called before this side sleeps.
  void ask_to_be_woken();
  std::uint64_t bytes_copied() const { return bytes_copied_; }

 private:
  struct Posted {
    Work work;
    std::uint32_t end = 0;  // The number of slots up to and including its last one, once that is published.
    // Bytes published so far; for a READ or atomic, bytes of the answer that have arrived.
    std::uint32_t piece_offset = 0;
    bool published = false;      // All pieces are published.
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
  std::uint64_t next_ = 0;                            // The work request to publish next.
  std::uint32_t posted_ = 0;                          // Slots published.
  std::uint32_t handled_ = 0;                         // Slots that are done, as the peer reported last.
  std::uint32_t answers_taken_ = 0;                   // Pieces of answers.
  std::uint64_t staged_ = 0;                          // Bytes of staging memory used so far, including gaps.
  std::uint64_t staged_free_ = 0;                     // Bytes of these that are free again.
  std::array<std::uint64_t, kSlots> staged_until_{};  // By slot: the value of `staged_` after it.
  bool published_ = false;
  std::string_view fault_;
  WorkStatus refusal_ = WorkStatus::success;
  std::uint64_t bytes_copied_ = 0;
};

}  // namespace rdmc::fabric::shm
