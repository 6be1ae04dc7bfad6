#include "dataplane/fabric/verbs/bring_up.hpp"

#include <utility>

namespace rdmc::fabric {

BringUp::BringUp(ibv_qp* queue_pair, const Step& to_receive, const Step& to_send, std::function<void()> over)
    : thread_([this, queue_pair, to_receive, to_send, over = std::move(over)] {
        for (Step step : {to_receive, to_send}) {
          error_ = ibv_modify_qp(queue_pair, &step.attributes, step.mask);
          if (error_ != 0) break;
        }
        over_.store(true, std::memory_order_release);
        over();
      }) {}

}  // namespace rdmc::fabric
