// Connecting. A BringUp configures the device with the values from the two blobs. Work requests that are
// posted during the bring-up wait in the VerbsQueuePair.
#include <algorithm>
#include <cstring>

#include "dataplane/fabric/verbs/verbs_fabric.hpp"
#include "dataplane/fabric/verbs/verbs_queue_pair.hpp"
#include "dataplane/fabric/verbs/verbs_terms.hpp"

namespace rdmc::fabric {
namespace {

// The largest number of retries that every device counts. For Soft-RoCE, 7 means that the number is not
// limited.
constexpr std::uint8_t kRetries = 6;
/// The value for 640 us (IBTA vol. 1, table 45). A peer that gets an RNR NAK tries again after this time. By
/// then, the poll loop has filled an empty receive queue again.
constexpr std::uint8_t kMinRnrTimer = 12;
constexpr std::uint8_t kHopLimit = 64;

}  // namespace

Result<void> VerbsQueuePair::connect(std::span<const std::byte> peer_blob) {
  if (connected_ || failed_) return rdmc::fail(Errc::invalid_argument, "the queue pair is connected already");
  const auto peer = decode_connection(peer_blob);
  if (!peer) return std::unexpected(peer.error());
  if (peer->shared.ipv6 != local_.shared.ipv6)
    return rdmc::fail(Errc::unsupported, "one side has IPv4, the other IPv6");
  const auto mtu = agree_path_mtu(local_, *peer);
  if (!mtu) return std::unexpected(mtu.error());
  const VerbsDevice& device = fabric_.device_;
  const std::uint8_t peers_most = peer->max_rd_atomic == 0 ? options_.max_rd_atomic : peer->max_rd_atomic;

  BringUp::Step to_receive{.mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER};
  ibv_qp_attr& receiving = to_receive.attributes;
  receiving.qp_state = IBV_QPS_RTR;
  receiving.path_mtu = mtu_of(*mtu);
  receiving.dest_qp_num = value_of(peer->qpn);
  receiving.rq_psn = (peer->psn_for_other ? local_.first_psn : peer->first_psn).value();
  receiving.max_dest_rd_atomic = local_.max_rd_atomic;
  receiving.min_rnr_timer = kMinRnrTimer;
  receiving.ah_attr.is_global = 1;
  receiving.ah_attr.grh.dgid = gid_of(peer->shared);
  receiving.ah_attr.grh.sgid_index = device.gid_index;
  receiving.ah_attr.grh.hop_limit = kHopLimit;
  receiving.ah_attr.grh.traffic_class = fabric_.traffic_class_;
  receiving.ah_attr.port_num = device.port;

  BringUp::Step to_send{.mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC};
  ibv_qp_attr& sending = to_send.attributes;
  sending.qp_state = IBV_QPS_RTS;
  sending.timeout = ack_timeout_exponent(options_.ack_timeout * (options_.retry_limit + 1), kRetries + 1);
  sending.retry_cnt = kRetries;
  sending.rnr_retry = std::min(options_.rnr_retry_limit, kRnrRetryForEver);
  sending.sq_psn = (peer->psn_for_other ? peer->first_psn : local_.first_psn).value();
  sending.max_rd_atomic = VerbsDevice::reads_at_most(std::min(options_.max_rd_atomic, peers_most),
                                                     device.limits.max_qp_init_rd_atom);

  peer_ = host_string(peer->shared);
  connected_ = true;
  ++fabric_.introductions_;
  bring_up_ = std::make_unique<BringUp>(made_.handle.get(), to_receive, to_send,
                                        [&fabric = fabric_] { fabric.wake(); });
  return {};
}

void VerbsQueuePair::check_introduction() {
  if (!bring_up_ || !bring_up_->is_over()) return;
  const int error = bring_up_->error();
  bring_up_.reset();
  --fabric_.introductions_;
  // The queue pair failed for another reason during the bring-up.
  if (failed_) return to_error();
  if (error != 0)
    return fail("connecting through " + fabric_.device_.name + " to " + peer_ + ": " + std::strerror(error));
  for (; !waiting_.empty(); waiting_.pop_front()) {
    Waiting& next = waiting_.front();
    if (next.may_inline && next.bytes.size() <= made_.inline_bytes)
      next.bytes = std::span(next.copy).first(next.bytes.size());
    Posted& posted = posted_[posted_.tail() - waiting_.size()];
    if (const auto handed = to_device(next.work, posted, next.bytes, next.may_inline); !handed)
      return fail(handed.error().what);
  }
}

/// Completes as flushed the work requests that were never given to the device. Does nothing until the device
/// has completed all other work requests.
void VerbsQueuePair::flush_unseen() {
  if (unseen_ == 0 || posted_.size() != unseen_) return;
  for (; unseen_ > 0; --unseen_) {
    push_done(
        {.work_id = posted_.front().work_id, .kind = posted_.front().kind, .status = WorkStatus::flushed});
    posted_.pop();
  }
  --fabric_.waiting_;
}

}  // namespace rdmc::fabric
