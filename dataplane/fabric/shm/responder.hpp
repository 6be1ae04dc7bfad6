// The answering end of a shm queue pair: carries out the peer's requests on memory of ours, in order, one
// after the other. It pulls payload: the peer says where it lies, we copy it to where the request may put it
// and nowhere else, so no peer ever writes memory of ours. Every field of a request is checked; the rights of
// a key are looked up again for each piece that is copied, so that a revoked region is left alone from then
// on. Pure but for the shared memory. Owned by a ShmQueuePair; one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "dataplane/fabric/queue_pair.hpp"
#include "dataplane/fabric/shm/payload_source.hpp"
#include "dataplane/fabric/shm/queue_memory.hpp"
#include "dataplane/roce/fixed_ring.hpp"
#include "dataplane/roce/region_table.hpp"

namespace rdmc::fabric::shm {

class Responder {
 public:
  using Completions = roce::FixedRing<Completion>;

  /// `done` has room for the completion of each receive. `holder`: whose keys the peer may use beside those
  /// that anyone may.
  Responder(QueueMemory& ours, PayloadSource& payload, roce::RegionTable& regions, KeyHolder holder,
            Completions& done, std::uint32_t depth)
      : ours_(ours), payload_(payload), regions_(regions), holder_(holder), done_(done), receives_(depth) {}

  void attach(const QueueMemory& peers) { peers_ = &peers; }

  /// The caller sees to it that no more than `depth` are posted.
  void post_receive(const ReceiveRequest& receive) { receives_.push(receive); }

  /// QueuePair::redirect_write.
  bool redirect(RemoteKey key, std::span<std::byte> where);

  /// Carries out requests until about `budget` bytes are copied, none is left, or one has to wait; returns
  /// how much was done. What arrives is told before a long copy begins: the caller may have to pass it on.
  std::size_t turn(std::size_t budget);
  /// All posted receives complete: the oldest with `status`, the others flushed.
  void fail(WorkStatus status);

  /// Requests that another turn would carry out.
  bool has_more() const;
  /// The peer's next request waits for a receive of ours.
  bool not_ready() const { return not_ready_; }
  /// What ended it; empty: nothing.
  std::string_view fault() const { return fault_; }
  /// Of the oldest receive, if there was a fault.
  WorkStatus receive_status() const { return receive_status_; }
  /// Requests done, modulo 2^32.
  std::uint32_t handled() const { return handled_; }
  /// A piece of an answer was published since the last call.
  bool take_answered() { return std::exchange(answered_now_, false); }
  std::uint64_t bytes_copied() const { return bytes_copied_; }

 private:
  enum class Step : std::uint8_t { done, again, waits, refused };

  bool take_slot();
  Step carry_out(std::size_t& budget);
  Step place(std::size_t& budget);
  Step finish_message();
  Step answer_read(std::size_t& budget);
  Step answer_atomic();
  Step answer(std::span<const std::byte> bytes);
  Step copy(std::span<std::byte> to, std::size_t extent, std::size_t& budget);
  Step refuse(Refusal refusal, std::string_view fault);
  Step end(std::string_view fault);
  std::byte* resolve(RemoteAccess access) const;
  std::byte* place_of_write() const;
  const std::span<std::byte>* redirection() const;

  QueueMemory& ours_;
  const QueueMemory* peers_ = nullptr;
  PayloadSource& payload_;
  roce::RegionTable& regions_;
  const KeyHolder holder_;
  Completions& done_;
  roce::FixedRing<ReceiveRequest> receives_;
  std::uint32_t handled_ = 0, answered_ = 0;
  bool answered_now_ = false;
  bool not_ready_ = false;
  bool arrived_now_ = false;  // in this turn
  bool has_slot_ = false;
  RequestSlot slot_;               // the request under way, copied: the peer may change its own
  std::uint32_t progress_ = 0;     // bytes of the slot copied or answered
  std::uint32_t next_offset_ = 0;  // of the message's next piece
  RequestSlot first_;              // of the message under way, if next_offset_ is not 0
  struct Redirect {
    std::uint32_t key = 0;
    std::span<std::byte> where;
  };
  std::vector<Redirect> redirects_;  // one for each key
  std::string_view fault_;
  WorkStatus receive_status_ = WorkStatus::flushed;
  std::uint64_t bytes_copied_ = 0;
};

}  // namespace rdmc::fabric::shm
