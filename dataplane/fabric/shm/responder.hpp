// The responder of a shm queue pair. It executes the peer's requests on local memory, in order, one after the
// other. It pulls payload: the peer's request contains the location of the payload, and this side copies the
// payload to the target of the request. So no peer ever writes local memory. Every field of a request is
// checked. The rights of a key are checked again for each piece that is copied, so nothing is written to a
// revoked region. The responder is a core: apart from the memory that it shares with the peer, it does no
// I/O. Owned by a ShmQueuePair, and used by one thread.
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

  /// Precondition: `done` has space for the completion of each receive. The peer may use the keys of
  /// `holder`, and the keys that any connection may use.
  Responder(QueueMemory& ours, PayloadSource& payload, roce::RegionTable& regions, KeyHolder holder,
            Completions& done, std::uint32_t depth)
      : ours_(ours), payload_(payload), regions_(regions), holder_(holder), done_(done), receives_(depth) {}

  void attach(const QueueMemory& peers) { peers_ = &peers; }

  /// Posts a receive. The caller must not have more than `depth` posted receives.
  void post_receive(const ReceiveRequest& receive) { receives_.push(receive); }

  /// Implements LocalPeer::redirect_write.
  bool redirect(RemoteKey key, std::span<std::byte> where);

  /// Executes requests until about `budget` bytes are copied, until no request is left, or until a request
  /// has to wait. If a message has arrived in this turn, it also returns before a long copy, because the
  /// caller may have to send the message on. Returns a measure of the work done.
  std::size_t turn(std::size_t budget);
  /// Completes all posted receives: the oldest with `status`, the others as flushed.
  void fail(WorkStatus status);

  /// True if another turn would execute requests.
  bool has_more() const;
  /// True if the peer's next request waits for a receive to be posted here.
  bool not_ready() const { return not_ready_; }
  /// The fault that ended the queue pair; empty if there is none.
  std::string_view fault() const { return fault_; }
  /// The status that the oldest receive gets after a fault.
  WorkStatus receive_status() const { return receive_status_; }
  /// The number of requests that are done, modulo 2^32.
  std::uint32_t handled() const { return handled_; }
  /// True if a piece of an answer was published since the last call.
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
  bool arrived_now_ = false;  // True if a message arrived in this turn.
  bool has_slot_ = false;
  RequestSlot slot_;               // A copy of the request in progress, because the peer may change its own.
  std::uint32_t progress_ = 0;     // The number of bytes of the slot that are copied or answered.
  std::uint32_t next_offset_ = 0;  // The offset of the message's next piece.
  RequestSlot first_;  // The first piece of the message in progress. Only valid if next_offset_ is not 0.
  struct Redirect {
    std::uint32_t key = 0;
    std::span<std::byte> where;
  };
  std::vector<Redirect> redirects_;  // Contains at most one entry for each key.
  std::string_view fault_;
  WorkStatus receive_status_ = WorkStatus::flushed;
  std::uint64_t bytes_copied_ = 0;
};

}  // namespace rdmc::fabric::shm
