#include "dataplane/fabric/verbs/verbs_queue_pair.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "dataplane/fabric/verbs/verbs_fabric.hpp"
#include "dataplane/fabric/verbs/verbs_terms.hpp"

namespace rdmc::fabric {
namespace {

/// The maximum number of shared slots that one queue pair may keep while no receives are posted for them.
constexpr std::size_t kMostEarly = SharedReceives::kSlots / 4;
/// The time that each byte of a work request adds to the time after which the work request counts as stuck.
/// It corresponds to a link of 1 Mb/s.
constexpr std::int64_t kNanosecondsPerByte = 8'000;

}  // namespace

VerbsQueuePair::VerbsQueuePair(VerbsFabric& fabric, const QueuePairOptions& options, ConnectionInfo local,
                               Made made)
    : fabric_(fabric),
      options_(options),
      local_(local),
      made_(std::move(made)),
      posted_(options.send_depth),
      receives_(options.receive_depth),
      done_(std::size_t{options.send_depth} + options.receive_depth) {}

VerbsQueuePair::~VerbsQueuePair() {
  fabric_.forget(*this);
}

QueuePairState VerbsQueuePair::state() const noexcept {
  if (failed_) return QueuePairState::error;
  return connected_ ? QueuePairState::ready : QueuePairState::reset;
}

Result<void> VerbsQueuePair::check_room() const {
  if (failed_) return rdmc::fail(Errc::peer_failed, cause_);
  if (!connected_) return rdmc::fail(Errc::invalid_argument, "the queue pair is not connected");
  if (sends_held_ == options_.send_depth) return rdmc::fail(Errc::would_block, "the send queue is full");
  return {};
}

Result<void> VerbsQueuePair::post(ibv_send_wr& work, Posted posted, std::span<const std::byte> bytes,
                                  bool may_inline) {
  if (auto room = check_room(); !room) return room;
  if (bytes.size() > fabric_.device_.largest_message)
    return rdmc::fail(Errc::invalid_argument, "a message of " + std::to_string(bytes.size()) + " bytes; " +
                                                  fabric_.device_.name + " sends " +
                                                  std::to_string(fabric_.device_.largest_message));
  posted.bytes = static_cast<std::uint32_t>(bytes.size());
  if (bring_up_) {
    Waiting& waiting = waiting_.emplace_back(Waiting{work, bytes, {}, may_inline});
    if (may_inline && bytes.size() <= made_.inline_bytes) std::ranges::copy(bytes, waiting.copy.begin());
  } else if (auto handed = to_device(work, posted, bytes, may_inline); !handed) {
    return handed;
  }
  if (posted_.empty()) {
    waiting_since_ = Time::never();
    ++fabric_.waiting_;
  }
  posted_.push(posted);
  ++sends_held_;
  return {};
}

Result<void> VerbsQueuePair::to_device(ibv_send_wr& work, Posted& posted, std::span<const std::byte> bytes,
                                       bool may_inline) {
  ibv_sge piece{};
  if (!bytes.empty()) {
    piece.addr = reinterpret_cast<std::uint64_t>(bytes.data());
    piece.length = static_cast<std::uint32_t>(bytes.size());
    if (may_inline && bytes.size() <= made_.inline_bytes) {
      work.send_flags |= IBV_SEND_INLINE;
    } else {
      const bool fills = posted.kind == WorkKind::read || posted.kind == WorkKind::atomic;
      const auto lease = fabric_.local_keys_.lease(bytes, LocalKeys::Holder::work,
                                                   fills ? LocalKeys::Use::write : LocalKeys::Use::read);
      if (!lease) return std::unexpected(lease.error());
      posted.lease = *lease;
      piece.lkey = lease->key;
    }
    work.sg_list = &piece;
    work.num_sge = 1;
  }
  work.wr_id = VerbsFabric::work_id(made_.serial, false);
  ibv_send_wr* refused = nullptr;
  if (const int error = ibv_post_send(made_.handle.get(), &work, &refused); error != 0) {
    fabric_.local_keys_.release(std::exchange(posted.lease, {}), LocalKeys::Holder::work);
    if (error == ENOMEM) return rdmc::fail(Errc::would_block, "the device's send queue is full");
    return fail_errno("posting to " + fabric_.device_.name, error);
  }
  return {};
}

Result<void> VerbsQueuePair::post_send(const SendRequest& request) {
  if (request.immediate && request.invalidate)
    return rdmc::fail(Errc::invalid_argument, "a SEND carries an immediate or invalidates a key, not both");
  ibv_send_wr work{.opcode = IBV_WR_SEND};
  if (request.immediate) {
    work.opcode = IBV_WR_SEND_WITH_IMM;
    work.imm_data = htonl(*request.immediate);
  } else if (request.invalidate) {
    work.opcode = IBV_WR_SEND_WITH_INV;
    work.invalidate_rkey = value_of(*request.invalidate);
  }
  return post(work, {.work_id = request.work_id, .kind = WorkKind::send}, request.bytes, true);
}

Result<void> VerbsQueuePair::post_write(const WriteRequest& request) {
  ibv_send_wr work{.opcode = request.immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE};
  if (request.immediate) work.imm_data = htonl(*request.immediate);
  work.wr.rdma = {.remote_addr = request.remote_address, .rkey = value_of(request.remote_key)};
  return post(work, {.work_id = request.work_id, .kind = WorkKind::write}, request.bytes, true);
}

Result<void> VerbsQueuePair::post_read(const ReadRequest& request) {
  ibv_send_wr work{.opcode = IBV_WR_RDMA_READ};
  work.wr.rdma = {.remote_addr = request.remote_address, .rkey = value_of(request.remote_key)};
  return post(work, {.work_id = request.work_id, .kind = WorkKind::read}, request.bytes, false);
}

Result<void> VerbsQueuePair::post_atomic(const AtomicRequest& request) {
  const auto result = atomic_result();
  if (!result) return std::unexpected(result.error());
  const bool swap = request.kind == AtomicRequest::Kind::compare_swap;
  ibv_send_wr work{.opcode = swap ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD};
  work.wr.atomic = {.remote_addr = request.remote_address,
                    .compare_add = swap ? request.compare : request.swap_or_add,
                    .swap = swap ? request.swap_or_add : 0,
                    .rkey = value_of(request.remote_key)};
  return post(work, {.work_id = request.work_id, .kind = WorkKind::atomic},
              std::as_bytes(std::span(*result, 1)), false);
}

/// Returns the memory into which the device puts the old value of the atomic that is posted next.
Result<std::uint64_t*> VerbsQueuePair::atomic_result() {
  if (fabric_.device_.limits.atomic_cap == IBV_ATOMIC_NONE)
    return rdmc::fail(Errc::unsupported, fabric_.device_.name + " has no atomics");
  if (atomic_lease_.registration == nullptr) {
    auto memory = memory::Arena::make(std::size_t{options_.send_depth} * sizeof(std::uint64_t) * 2);
    if (!memory) return std::unexpected(memory.error());
    const auto lease =
        fabric_.local_keys_.lease(memory->bytes(), LocalKeys::Holder::region, LocalKeys::Use::write);
    if (!lease) return std::unexpected(lease.error());
    atomic_results_ = std::move(*memory);
    atomic_lease_ = *lease;
  }
  const auto results = atomic_results_.bytes();
  return reinterpret_cast<std::uint64_t*>(results.data()) +
         posted_.tail() % (results.size() / sizeof(std::uint64_t));
}

Result<void> VerbsQueuePair::post_receive(const ReceiveRequest& request) {
  if (failed_) return rdmc::fail(Errc::peer_failed, cause_);
  if (receives_held_ == options_.receive_depth)
    return rdmc::fail(Errc::would_block, "the receive queue is full");
  if (!made_.shares_receives) return post_own_receive(request);
  receives_.push({.work_id = request.work_id, .bytes = request.bytes});
  ++receives_held_;
  if (!early_.empty()) {
    const Early early = early_.front();
    early_.pop_front();
    deliver(early.completion, early.slot);
    fabric_.shared_receives_->give_back(early.slot);
  }
  return {};
}

Result<void> VerbsQueuePair::post_own_receive(const ReceiveRequest& request) {
  Receive receive{.work_id = request.work_id, .bytes = request.bytes};
  ibv_recv_wr work{.wr_id = VerbsFabric::work_id(made_.serial, true)};
  ibv_sge piece{};
  if (!request.bytes.empty()) {
    const auto lease =
        fabric_.local_keys_.lease(request.bytes, LocalKeys::Holder::work, LocalKeys::Use::write);
    if (!lease) return std::unexpected(lease.error());
    receive.lease = *lease;
    piece = {.addr = reinterpret_cast<std::uint64_t>(request.bytes.data()),
             .length = static_cast<std::uint32_t>(request.bytes.size()),
             .lkey = lease->key};
    work.sg_list = &piece;
    work.num_sge = 1;
  }
  ibv_recv_wr* refused = nullptr;
  if (const int error = ibv_post_recv(made_.handle.get(), &work, &refused); error != 0) {
    fabric_.local_keys_.release(receive.lease, LocalKeys::Holder::work);
    return fail_errno("posting a receive to " + fabric_.device_.name, error);
  }
  receives_.push(receive);
  ++receives_held_;
  return {};
}

std::size_t VerbsQueuePair::poll_completions(std::span<Completion> out) {
  std::size_t count = 0;
  for (; count < out.size() && !done_.empty(); ++count) {
    out[count] = done_.front();
    done_.pop();
    --fabric_.undelivered_;
    const bool received =
        out[count].kind == WorkKind::receive || out[count].kind == WorkKind::receive_write_immediate;
    --(received ? receives_held_ : sends_held_);
  }
  return count;
}

void VerbsQueuePair::push_done(const Completion& completion) {
  done_.push(completion);
  ++fabric_.undelivered_;
}

void VerbsQueuePair::on_work(const ibv_wc& completion) {
  if (posted_.empty()) return fail("the RDMA device completed what was not posted");
  const Posted posted = posted_.front();
  Completion result{.work_id = posted.work_id, .kind = posted.kind, .status = status_of(completion.status)};
  if (completion.status == IBV_WC_WR_FLUSH_ERR && verdict_)
    result.status = *std::exchange(verdict_, std::nullopt);
  if (completion.status == IBV_WC_SUCCESS && posted.kind == WorkKind::read) result.byte_count = posted.bytes;
  if (completion.status == IBV_WC_SUCCESS && posted.kind == WorkKind::atomic) {
    const auto results = atomic_results_.bytes();
    const std::size_t place = posted_.head() % (results.size() / sizeof(std::uint64_t));
    std::memcpy(&result.original, results.data() + place * sizeof(std::uint64_t), sizeof result.original);
  }
  fabric_.local_keys_.release(posted.lease, LocalKeys::Holder::work);
  posted_.pop();
  waiting_since_ = Time::never();
  if (posted_.empty()) --fabric_.waiting_;
  push_done(result);
  flush_unseen();
  // The device may have reported the reason of the failure as an event.
  if (completion.status == IBV_WC_WR_FLUSH_ERR && !failed_) fabric_.poll_events();
  if (completion.status != IBV_WC_SUCCESS) fail(text_of(completion.status));
}

void VerbsQueuePair::finish_receive(const ibv_wc& completion) {
  Completion result{.work_id = receives_.front().work_id,
                    .kind = WorkKind::receive,
                    .status = status_of(completion.status)};
  fabric_.local_keys_.release(receives_.front().lease, LocalKeys::Holder::work);
  receives_.pop();
  if (completion.status == IBV_WC_SUCCESS) {
    if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) result.kind = WorkKind::receive_write_immediate;
    result.byte_count = completion.byte_len;
    if ((completion.wc_flags & IBV_WC_WITH_IMM) != 0) result.immediate = ntohl(completion.imm_data);
    if ((completion.wc_flags & IBV_WC_WITH_INV) != 0)
      result.invalidated = RemoteKey{completion.invalidated_rkey};
  }
  push_done(result);
}

void VerbsQueuePair::on_receive(const ibv_wc& completion) {
  if (receives_.empty()) return fail("the RDMA device completed what was not posted");
  finish_receive(completion);
  if (completion.status != IBV_WC_SUCCESS) fail(text_of(completion.status));
}

bool VerbsQueuePair::on_shared_receive(const ibv_wc& completion, std::uint32_t slot) {
  if (failed_) return false;
  if (completion.status != IBV_WC_SUCCESS) {
    fail(text_of(completion.status));
  } else if (!receives_.empty()) {
    deliver(completion, slot);
  } else if (early_.size() == kMostEarly) {
    fail("the peer sent more messages than it was granted receives");
  } else {
    early_.push_back({completion, slot});
    return true;
  }
  return false;
}

/// Copies the message into the oldest posted receive. Fails if the message is longer than the receive.
void VerbsQueuePair::deliver(const ibv_wc& completion, std::uint32_t slot) {
  const bool in_slot = completion.opcode == IBV_WC_RECV;
  const auto bytes = fabric_.shared_receives_->slot(
      slot, in_slot ? std::min(completion.byte_len, SharedReceives::kSlotBytes) : 0);
  const Receive& receive = receives_.front();
  if (bytes.size() > receive.bytes.size()) {
    ibv_wc too_long = completion;
    too_long.status = IBV_WC_LOC_LEN_ERR;
    finish_receive(too_long);
    return fail(text_of(IBV_WC_LOC_LEN_ERR));
  }
  std::ranges::copy(bytes, receive.bytes.begin());
  ++fabric_.counters_.shared_receives;
  fabric_.counters_.bytes_copied += bytes.size();
  finish_receive(completion);
}

/// Moves the device's queue pair to the error state. All posted work requests then complete as flushed. The
/// queue pair may already be in the error state.
void VerbsQueuePair::to_error() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(made_.handle.get(), &attributes, IBV_QP_STATE);
}

void VerbsQueuePair::fail(std::string cause) {
  if (failed_) return;
  failed_ = true;
  fabric_.news_ = true;
  cause_ = std::move(cause);
  if (!bring_up_) to_error();
  unseen_ = static_cast<std::uint32_t>(waiting_.size());
  waiting_.clear();
  flush_unseen();
  for (const Early& early : early_) fabric_.shared_receives_->give_back(early.slot);
  early_.clear();
  if (!made_.shares_receives) return;  // The device flushes the receives of its own queue.
  ibv_wc flushed{};
  flushed.status = IBV_WC_WR_FLUSH_ERR;
  while (!receives_.empty()) finish_receive(flushed);
}

/// Ends all leases and gives back all shared slots. Precondition: the device no longer accesses any memory
/// for this queue pair.
void VerbsQueuePair::give_everything_back() {
  if (!posted_.empty()) --fabric_.waiting_;
  for (; !posted_.empty(); posted_.pop())
    fabric_.local_keys_.release(posted_.front().lease, LocalKeys::Holder::work);
  for (; !receives_.empty(); receives_.pop())
    fabric_.local_keys_.release(receives_.front().lease, LocalKeys::Holder::work);
  for (const Early& early : early_) fabric_.shared_receives_->give_back(early.slot);
  fabric_.local_keys_.release(atomic_lease_, LocalKeys::Holder::region);
}

void VerbsQueuePair::check_patience(Time now) {
  if (failed_ || posted_.empty() || bring_up_) return;
  waiting_since_ = std::min(waiting_since_, now);
  if (options_.rnr_retry_limit < kRnrRetryForEver || options_.rnr_patience.ns == 0) return;
  const Duration silence = options_.ack_timeout * (options_.retry_limit + 1);
  const Duration transfer{static_cast<std::int64_t>(posted_.front().bytes) * kNanosecondsPerByte};
  // Only RNR NAKs can delay a work request for this long, because a NIC limits the number of all other
  // retries.
  if (now - waiting_since_ > silence * 4 + options_.rnr_patience + transfer) {
    verdict_ = WorkStatus::rnr_retry_exceeded;
    fail("the peer posted no receive");
  }
}

}  // namespace rdmc::fabric
