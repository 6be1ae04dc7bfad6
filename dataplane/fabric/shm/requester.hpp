// The asking end of a shm queue pair: turns posted works into requests in its own QueueMemory, and the peer's
// counts into completions. Pure but for the memory that it shares with the peer: no clock, no system call;
// what the peer says is checked, and a lie ends the queue pair. Owned by a ShmQueuePair; one thread.
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
  RequestSlot request;               ///< but for its pieces
  std::span<const std::byte> bytes;  ///< what leaves
  std::span<std::byte> target;       ///< where what a READ asks for goes
};

class Requester {
 public:
  using Completions = roce::FixedRing<Completion>;

  /// Messages up to here are staged: copying them twice in the cache costs less than anything else.
  static constexpr std::size_t kAlwaysStaged = 4096;
  static constexpr std::size_t kStagedPiece = 32 << 10;

  /// `done` has room for the completion of each work.
  Requester(QueueMemory& ours, PayloadSource& payload, Completions& done, std::uint32_t depth)
      : ours_(ours), payload_(payload), done_(done), works_(depth) {}

  /// The peer's memory is here: from now on requests are published.
  void attach(const QueueMemory& peers) { peers_ = &peers; }

  /// The caller sees to it that no more than `depth` are under way. Publishes what it can.
  void post(const Work& work);
  /// Takes what the peer has done, and publishes more; returns how much.
  std::size_t turn();
  /// Everything under way completes: the oldest with `status`, the others flushed.
  void fail(WorkStatus status);

  /// Slots published so far, and those of them that the peer is done with; modulo 2^32.
  std::uint32_t posted() const { return posted_; }
  bool is_handled(std::uint32_t slots) const { return static_cast<std::int32_t>(handled_ - slots) >= 0; }
  bool idle() const { return works_.empty(); }
  /// What the peer broke; empty: nothing.
  std::string_view fault() const { return fault_; }
  /// The status of a refused work; success: none was.
  WorkStatus refusal() const { return refusal_; }

  /// The peer has done something since the last turn.
  bool has_news() const;
  /// Something was published, or an answer taken, since the last call.
  bool take_published() { return std::exchange(published_, false); }
  /// To be called before sleeping.
  void ask_to_be_woken();
  std::uint64_t bytes_copied() const { return bytes_copied_; }

 private:
  struct Posted {
    Work work;
    std::uint32_t end = 0;           // behind its last slot, once that is published
    std::uint32_t piece_offset = 0;  // published so far; of what asks: arrived so far
    bool published = false;          // all of it
    std::uint64_t original = 0;      // of an atomic
    /// Where the answer goes; empty: none is due.
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
  std::uint64_t next_ = 0;                            // the work to publish next
  std::uint32_t posted_ = 0;                          // slots
  std::uint32_t handled_ = 0;                         // of those, as the peer said last
  std::uint32_t answers_taken_ = 0;                   // pieces of answers
  std::uint64_t staged_ = 0;                          // bytes of staging memory ever used, gaps included
  std::uint64_t staged_free_ = 0;                     // of those free again
  std::array<std::uint64_t, kSlots> staged_until_{};  // by slot: `staged_` behind it
  bool published_ = false;
  std::string_view fault_;
  WorkStatus refusal_ = WorkStatus::success;
  std::uint64_t bytes_copied_ = 0;
};

}  // namespace rdmc::fabric::shm
