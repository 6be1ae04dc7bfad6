// The receive queue that the queue pairs of a verbs fabric share, with its buffers: however many groups and
// neighbours there are, the device sees this one queue of small slots, which it can keep in its cache. What
// arrives is copied on from the slot into the receive that its queue pair has posted. Owned by a VerbsFabric;
// its thread.
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
  /// Room for the longest control frame several times over.
  static constexpr std::uint32_t kSlotBytes = 256;
  /// Messages that may have arrived and not been looked at; more wait at their senders (RNR), who ask again.
  static constexpr std::uint32_t kSlots = 1024;

  /// All slots posted. Errors: unsupported (the device has no shared receive queues), resource_limit.
  static Result<SharedReceives> make(const VerbsDevice& device);

  ibv_srq* queue() const { return queue_.get(); }
  std::span<const std::byte> slot(std::uint32_t index, std::size_t bytes) const {
    return slots_.bytes().subspan(index * kSlotBytes).first(bytes);
  }
  /// `index` has been read. It is posted again with the next post().
  void give_back(std::uint32_t index) { free_.push_back(index); }
  /// Posts what was given back, all at once. `tag` | index names a slot in its completion.
  void post(std::uint64_t tag);

 private:
  memory::Arena slots_;
  VerbsHandle<ibv_mr> region_;
  VerbsHandle<ibv_srq> queue_;
  std::vector<std::uint32_t> free_;
  std::vector<ibv_recv_wr> works_;  // scratch
  std::vector<ibv_sge> pieces_;
};

}  // namespace rdmc::fabric
