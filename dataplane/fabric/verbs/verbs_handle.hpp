// Owning handles for the objects of libibverbs. A handle releases its object when it is destroyed. Members
// are destroyed in reverse order, so a member may depend on those declared before it.
#pragma once

#include <infiniband/verbs.h>

#include <memory>

namespace rdmc::fabric {

struct GiveBack {
  void operator()(ibv_context* context) const noexcept { ibv_close_device(context); }
  void operator()(ibv_pd* domain) const noexcept { ibv_dealloc_pd(domain); }
  void operator()(ibv_comp_channel* channel) const noexcept { ibv_destroy_comp_channel(channel); }
  void operator()(ibv_cq* queue) const noexcept { ibv_destroy_cq(queue); }
  void operator()(ibv_srq* queue) const noexcept { ibv_destroy_srq(queue); }
  void operator()(ibv_qp* queue_pair) const noexcept { ibv_destroy_qp(queue_pair); }
  void operator()(ibv_mr* region) const noexcept { ibv_dereg_mr(region); }
};

template <typename Object>
using VerbsHandle = std::unique_ptr<Object, GiveBack>;

}  // namespace rdmc::fabric
