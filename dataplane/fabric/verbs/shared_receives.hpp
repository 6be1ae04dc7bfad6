// The receive queue that the queue pairs of a verbs fabric share, and its buffers. For any number of groups
// and neighbours, the device uses only this queue of small slots, which the device can keep in its cache. A
// message is copied from its slot into the receive that the queue pair of the message has posted. Owned by a
// VerbsFabric; used on its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/fabric/verbs/verbs_device.hpp"
#include "dataplane/memory/arena.hpp"

namespace rdmc::fabric {

class SharedReceives {
 public:
  /// The size of a slot: several times the length of the longest control frame.
  static constexpr std::uint32_t kSlotBytes = 256;
  /// The maximum number of messages that may wait to be read. The senders of further messages get RNR NAKs
  /// and try again.
  static constexpr std::uint32_t kSlots = 1024;

  /// Makes the queue. No slot is posted before the first post(). Errors: unsupported if the device has no
  /// shared receive queues, resource_limit.
  static Result<SharedReceives> make(const VerbsDevice& device);

  ibv_srq* queue() const { return queue_.get(); }
  std::span<const std::byte> slot(std::uint32_t index, std::size_t bytes) const {
    return slots_.bytes().subspan(index * kSlotBytes).first(bytes);
  }
  /// Must be called when slot `index` has been read. The next post() posts the slot again.
  void give_back(std::uint32_t index) { free_.push_back(index); }
  /// Posts all slots that were given back. The completion of a slot has the work id `tag` | index.
  void post(std::uint64_t tag);

 private:
  memory::Arena slots_;
  VerbsHandle<ibv_mr> region_;
  VerbsHandle<ibv_srq> queue_;
  std::vector<std::uint32_t> free_;
  std::vector<ibv_recv_wr> works_;  // Scratch memory for post().
  std::vector<ibv_sge> pieces_;
};

}  // namespace rdmc::fabric
