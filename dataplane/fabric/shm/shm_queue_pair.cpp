#include "dataplane/fabric/shm/shm_queue_pair.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "dataplane/fabric/shm/shm_fabric.hpp"

namespace rdmc::fabric {
namespace {

using shm::Operation;
using shm::RequestSlot;

/// In one turn, a queue pair pulls about this number of bytes. After that, other queue pairs have their
/// turns.
constexpr std::size_t kBytesPerTurn = 2 << 20;
constexpr std::size_t kMostMessageBytes = 0x7FFF'FFFF;
/// The least ACK timeout. On a machine with more processes than cores, the scheduler may delay an answer for
/// a long time.
constexpr Duration kLeastAckTimeout = milliseconds(40);
/// The limit for a peer that shows signs of life but completes no request.
constexpr Duration kMostForOneRequest = seconds(60);
/// If a peer has not answered yet, each check of the peer adds at most this time to the time for which this
/// side has waited. This limit also applies if the check is late. The reason is that the scheduler may have
/// given no core to this process for a while, and then possibly none to the peer either. Silence counts only
/// if the peer had turns in which it could answer.
constexpr Duration kMostPerLook = milliseconds(20);
/// While a peer waits for a receive, this side takes a turn at this interval. The peer regards these turns as
/// a sign of life.
constexpr Duration kHeartbeat = milliseconds(10);

}  // namespace

ShmQueuePair::ShmQueuePair(ShmFabric& fabric, const QueuePairOptions& options, const shm::ShmBlob& local,
                           std::uint64_t serial, memory::SharedPages memory)
    : fabric_(fabric),
      options_(options),
      local_(local),
      serial_(serial),
      memory_(std::move(memory)),
      ours_(*new (memory_.bytes().data()) shm::QueueMemory),
      probe_(std::uint64_t{fabric.options_.entropy()} << 32 | fabric.options_.entropy()),
      done_(std::size_t{options.send_depth} + options.receive_depth),
      requester_(ours_, *this, done_, options.send_depth),
      responder_(ours_, *this, fabric.regions_, KeyHolder{serial}, done_, options.receive_depth) {}

ShmQueuePair::~ShmQueuePair() {
  close(shm::Closed::left);
  fabric_.forget(*this);
}

QueuePairState ShmQueuePair::state() const noexcept {
  if (failed_) return QueuePairState::error;
  return peer_ ? QueuePairState::ready : QueuePairState::reset;
}

Result<std::unique_ptr<MemoryRegion>> ShmQueuePair::register_memory(std::span<std::byte> memory,
                                                                    RemoteAccess access) {
  if (!peer_) return rdmc::fail(Errc::invalid_argument, "the queue pair is not connected");
  return fabric_.register_for(KeyHolder{serial_}, memory, access);
}

Result<void> ShmQueuePair::check_room() const {
  if (failed_) return rdmc::fail(Errc::peer_failed, cause_);
  if (!peer_) return rdmc::fail(Errc::invalid_argument, "the queue pair is not connected");
  if (sends_held_ == options_.send_depth) return rdmc::fail(Errc::would_block, "the send queue is full");
  return {};
}

Result<void> ShmQueuePair::post(const shm::Work& work) {
  if (auto room = check_room(); !room) return room;
  if (std::max(work.bytes.size(), work.target.size()) > kMostMessageBytes)
    return rdmc::fail(Errc::invalid_argument, "a message of 2 GiB or more");
  ++sends_held_;
  requester_.post(work);
  return {};
}

Result<void> ShmQueuePair::post_send(const SendRequest& request) {
  if (request.immediate && request.invalidate)
    return rdmc::fail(Errc::invalid_argument, "a SEND carries an immediate or invalidates a key, not both");
  shm::Work work{.work_id = request.work_id,
                 .kind = WorkKind::send,
                 .request = {.operation = Operation::send},
                 .bytes = request.bytes};
  if (request.immediate) {
    work.request.flags = shm::kHasImmediate;
    work.request.immediate = *request.immediate;
  } else if (request.invalidate) {
    work.request.flags = shm::kInvalidates;
    work.request.immediate = value_of(*request.invalidate);
  }
  return post(work);
}

Result<void> ShmQueuePair::post_write(const WriteRequest& request) {
  shm::Work work{.work_id = request.work_id,
                 .kind = WorkKind::write,
                 .request = {.operation = Operation::write,
                             .key = value_of(request.remote_key),
                             .remote_address = request.remote_address},
                 .bytes = request.bytes};
  if (request.immediate) {
    work.request.flags = shm::kHasImmediate;
    work.request.immediate = *request.immediate;
  }
  return post(work);
}

Result<void> ShmQueuePair::post_read(const ReadRequest& request) {
  return post({.work_id = request.work_id,
               .kind = WorkKind::read,
               .request = {.operation = Operation::read,
                           .key = value_of(request.remote_key),
                           .remote_address = request.remote_address},
               .target = request.bytes});
}

Result<void> ShmQueuePair::post_atomic(const AtomicRequest& request) {
  const bool swap = request.kind == AtomicRequest::Kind::compare_swap;
  return post({.work_id = request.work_id,
               .kind = WorkKind::atomic,
               .request = {.operation = swap ? Operation::compare_swap : Operation::fetch_add,
                           .key = value_of(request.remote_key),
                           .remote_address = request.remote_address,
                           .operand = request.swap_or_add,
                           .compare = request.compare}});
}

Result<void> ShmQueuePair::post_receive(const ReceiveRequest& request) {
  if (failed_) return rdmc::fail(Errc::peer_failed, cause_);
  if (receives_held_ == options_.receive_depth)
    return rdmc::fail(Errc::would_block, "the receive queue is full");
  ++receives_held_;
  responder_.post_receive(request);
  return {};
}

std::size_t ShmQueuePair::poll_completions(std::span<Completion> out) {
  std::size_t count = 0;
  for (; count < out.size() && !done_.empty(); done_.pop()) {
    out[count] = done_.front();
    const WorkKind kind = out[count++].kind;
    const bool received = kind == WorkKind::receive || kind == WorkKind::receive_write_immediate;
    --(received ? receives_held_ : sends_held_);
  }
  return count;
}

std::size_t ShmQueuePair::turn(Time now) {
  if (failed_ || !peer_) return 0;
  turned_at_ = now;
  if (now >= dial_at_) dial_again(now);
  const std::size_t done = requester_.turn() + responder_.turn(kBytesPerTurn);
  check_cores();
  if (peer_left_ && !requester_.idle()) fail(WorkStatus::retry_exceeded, "the peer has gone");
  check_patience(now);
  return done + (failed_ ? 1 : 0);
}

void ShmQueuePair::check_cores() {
  if (failed_) return;
  if (!responder_.fault().empty()) {
    fail(WorkStatus::flushed, std::string(responder_.fault()));
  } else if (!requester_.fault().empty()) {
    fail(WorkStatus::bad_response, std::string(requester_.fault()));
  } else if (requester_.refusal() == WorkStatus::remote_access) {
    fail(requester_.refusal(), "the peer refused access: key or range revoked or wrong");
  } else if (requester_.refusal() != WorkStatus::success) {
    fail(requester_.refusal(), "the peer refused a request as invalid");
  }
}

void ShmQueuePair::ring() {
  if (!peer_doorbell_ || failed_) return;
  ring_for_requests_ |= requester_.take_published();
  ring_for_requests_ |= responder_.take_answered();
  const std::uint32_t handled = responder_.handled();
  if (!ring_for_requests_ && handled == told_handled_) return;
  if (peer_doorbell_->is_asleep()) {
    // The peer wants to be woken when enough of its requests are done, or when no more will be done for now.
    const auto wanted = static_cast<std::int32_t>(handled - peers().control.wake_at.load());
    if (!ring_for_requests_ && wanted < 0 && responder_.has_more()) return;
    const shm::Sleep slept = peer_doorbell_->ring();
    if (slept == shm::Sleep::elsewhere) (void)socket_.send({.kind = shm::MessageKind::ring}, {});
    if (slept != shm::Sleep::awake) ++fabric_.counters_.rings;
  }
  told_handled_ = handled;
  ring_for_requests_ = false;
}

bool ShmQueuePair::has_news() const {
  return !failed_ && (requester_.has_news() || responder_.has_more() || (peer_left_ && !requester_.idle()));
}

Duration ShmQueuePair::patience() const {
  return std::max(options_.ack_timeout, kLeastAckTimeout) * (options_.retry_limit + 1);
}

/// Returns how long this side waits until the peer posts a receive; 0 means that there is no limit.
Duration ShmQueuePair::receive_patience() const {
  constexpr std::uint8_t kForEver = 7;
  if (options_.rnr_retry_limit == kForEver) return options_.rnr_patience;
  return milliseconds(options_.rnr_retry_limit + 1);
}

bool ShmQueuePair::peer_waits_for_receive() const {
  return peer_memory_ && peers().control.not_ready.load(std::memory_order_relaxed) != 0;
}

void ShmQueuePair::check_patience(Time now) {
  if (failed_) return;
  const bool waited = std::exchange(waits_, !requester_.idle());
  const Duration passed = std::min(now - std::exchange(looked_at_, now), kMostPerLook);
  if (!waits_) return;
  const std::uint32_t handled = peer_memory_ ? peers().control.handled.load() : 0;
  const std::uint32_t pulse = peer_memory_ ? peers().control.pulse.load(std::memory_order_relaxed) : 0;
  const bool progressed = std::exchange(handled_seen_, handled) != handled || !waited;
  const bool alive = std::exchange(pulse_seen_, pulse) != pulse || progressed;
  waited_ = progressed ? Duration{} : waited_ + passed;
  silent_ = alive ? Duration{} : silent_ + passed;
  const bool not_ready = peer_waits_for_receive();
  const Duration for_receive = receive_patience();
  if (not_ready && for_receive.ns != 0 && waited_ >= for_receive + kMostPerLook)
    fail(WorkStatus::rnr_retry_exceeded, "the peer posted no receive");
  else if (silent_ >= patience() || (!not_ready && waited_ >= kMostForOneRequest))
    fail(WorkStatus::retry_exceeded, "the peer stopped acknowledging");
}

Time ShmQueuePair::next_deadline() const {
  if (failed_) return Time::never();
  const Time turn = std::min(dial_at_, responder_.not_ready() ? turned_at_ + kHeartbeat : Time::never());
  if (requester_.idle()) return turn;
  // If waits_ is false, a work request was just posted.
  return waits_ ? std::min(turn, looked_at_ + kMostPerLook) : Time{};
}

void ShmQueuePair::close(shm::Closed how) {
  if (failed_) return;
  ours_.control.closed.store(static_cast<std::uint32_t>(how), std::memory_order_seq_cst);
  // `closed` must be visible to the peer before the application changes its memory.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  socket_.close();
}

void ShmQueuePair::fail(WorkStatus oldest, std::string cause) {
  if (failed_) return;
  close(shm::Closed::failed);
  failed_ = true;
  cause_ = std::move(cause);
  requester_.fail(oldest);
  responder_.fail(responder_.receive_status());
}

}  // namespace rdmc::fabric
