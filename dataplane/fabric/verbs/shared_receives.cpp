#include "dataplane/fabric/verbs/shared_receives.hpp"

#include <algorithm>
#include <cerrno>

#include "dataplane/fabric/verbs/local_keys.hpp"

namespace rdmc::fabric {

Result<SharedReceives> SharedReceives::make(const VerbsDevice& device) {
  if (device.limits.max_srq <= 0 || device.limits.max_srq_wr <= 0)
    return fail(Errc::unsupported, device.name + " has no shared receive queues");
  const auto slots = std::min(kSlots, static_cast<std::uint32_t>(device.limits.max_srq_wr));
  SharedReceives self;
  auto memory = memory::Arena::make(std::size_t{slots} * kSlotBytes);
  if (!memory) return std::unexpected(memory.error());
  self.slots_ = std::move(*memory);
  auto region = register_with_device(device.domain.get(), self.slots_.bytes(),
                                     reinterpret_cast<std::uint64_t>(self.slots_.bytes().data()),
                                     IBV_ACCESS_LOCAL_WRITE);
  if (!region) return std::unexpected(region.error());
  self.region_ = std::move(*region);
  ibv_srq_init_attr wanted{.srq_context = nullptr, .attr = {.max_wr = slots, .max_sge = 1, .srq_limit = 0}};
  self.queue_.reset(ibv_create_srq(device.domain.get(), &wanted));
  if (!self.queue_) return fail_errno("a shared receive queue of " + device.name, errno);
  self.works_.resize(slots);
  self.pieces_.resize(slots);
  self.free_.reserve(slots);
  for (std::uint32_t index = 0; index < slots; ++index) self.free_.push_back(index);
  return self;
}

void SharedReceives::post(std::uint64_t tag) {
  if (free_.empty()) return;
  const std::size_t count = free_.size();
  for (std::size_t i = 0; i < count; ++i) {
    const auto memory = slot(free_[i], kSlotBytes);
    pieces_[i] = {
        .addr = reinterpret_cast<std::uint64_t>(memory.data()), .length = kSlotBytes, .lkey = region_->lkey};
    works_[i] = {.wr_id = tag | free_[i],
                 .next = i + 1 < count ? &works_[i + 1] : nullptr,
                 .sg_list = &pieces_[i],
                 .num_sge = 1};
  }
  ibv_recv_wr* refused = nullptr;
  if (ibv_post_srq_recv(queue_.get(), works_.data(), &refused) == 0) {
    free_.clear();
  } else if (refused != nullptr) {
    // The other slots are posted next time.
    free_.erase(free_.begin(), free_.begin() + (refused - works_.data()));
  }
}

}  // namespace rdmc::fabric
