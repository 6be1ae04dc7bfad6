#include "dataplane/fabric/shm/responder.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace rdmc::fabric::shm {
namespace {

constexpr std::uint32_t kMostMessageBytes = 0x7FFF'FFFF;
/// The number of bytes after which the rights are checked again and a sign of life is given.
constexpr std::size_t kCopyAtOnce = 1 << 20;
/// A copy of at least this size does not begin in a turn in which a message has arrived.
constexpr std::uint32_t kLongCopy = 64 << 10;
/// The part of the budget that a request uses in addition to its bytes. So a turn ends even if the peer posts
/// as fast as requests are done.
constexpr std::size_t kRequestCost = 1 << 10;
constexpr std::string_view kOutside = "the peer reached outside of what it was granted";
constexpr std::string_view kInvalid = "the peer sent an invalid request";

/// True if `slot` is another piece of the message that `first` began. All fields that name memory must be
/// equal.
bool continues(const RequestSlot& slot, const RequestSlot& first) {
  return slot.operation == first.operation && slot.flags == first.flags &&
         slot.message_bytes == first.message_bytes && slot.immediate == first.immediate &&
         slot.key == first.key && slot.remote_address == first.remote_address;
}

bool is_well_formed(const RequestSlot& slot, std::uint32_t next_offset) {
  switch (slot.operation) {
    case Operation::send:
    case Operation::write: break;
    case Operation::read: return slot.message_bytes <= kMostMessageBytes && next_offset == 0;
    case Operation::compare_swap:
    case Operation::fetch_add: return slot.remote_address % 8 == 0 && next_offset == 0;
    default: return false;
  }
  if (slot.message_bytes > kMostMessageBytes || slot.offset != next_offset) return false;
  if (slot.offset > slot.message_bytes) return false;
  if (slot.bytes > slot.message_bytes - slot.offset) return false;
  return slot.bytes != 0 || slot.message_bytes == 0;
}

}  // namespace

std::byte* Responder::resolve(RemoteAccess access) const {
  const std::uint64_t bytes =
      slot_.operation == Operation::write || slot_.operation == Operation::read ? slot_.message_bytes : 8;
  return regions_.resolve(RemoteKey{slot_.key}, slot_.remote_address, bytes, access, holder_);
}

/// Returns the target of the write in progress; null if the write is not permitted.
std::byte* Responder::place_of_write() const {
  std::byte* const begin = resolve(RemoteAccess::write);
  const auto* const instead = redirection();
  return begin == nullptr || instead == nullptr ? begin : instead->data();
}

/// Returns the memory that replaces the region for the write in progress; null if the write goes into its
/// region.
const std::span<std::byte>* Responder::redirection() const {
  const auto found = std::ranges::find(redirects_, slot_.key, &Redirect::key);
  return found == redirects_.end() || found->where.size() != slot_.message_bytes ? nullptr : &found->where;
}

bool Responder::redirect(RemoteKey key, std::span<std::byte> where) {
  const bool lands_now = next_offset_ != 0 || (has_slot_ && progress_ != 0);
  if (lands_now && slot_.operation == Operation::write && slot_.key == value_of(key)) return false;
  std::erase_if(redirects_, [&](const Redirect& one) {
    // Redirections whose region is gone are erased as well.
    return one.key == value_of(key) || regions_.extent(RemoteKey{one.key}) == 0;
  });
  if (!where.empty()) redirects_.push_back({value_of(key), where});
  return true;
}

std::size_t Responder::turn(std::size_t budget) {
  std::size_t done = 0;
  arrived_now_ = false;
  while (peers_ != nullptr && fault_.empty() && (has_slot_ || take_slot())) {
    if (arrived_now_ && progress_ == 0 && slot_.bytes >= kLongCopy) break;
    const Step step = carry_out(budget);
    if (step == Step::waits || step == Step::refused) break;
    ++done;
    if (step == Step::done) {
      has_slot_ = false;
      budget -= std::min(budget, kRequestCost);
      ours_.control.handled.store(++handled_, std::memory_order_seq_cst);
    }
    if (budget == 0) break;
  }
  if (done != 0 || not_ready_) ours_.control.pulse.fetch_add(1, std::memory_order_relaxed);
  auto& told = ours_.control.not_ready;
  if (told.load(std::memory_order_relaxed) != not_ready_) told.store(not_ready_, std::memory_order_relaxed);
  return done;
}

bool Responder::take_slot() {
  const std::uint32_t posted = peers_->control.posted.load(std::memory_order_seq_cst);
  if (posted == handled_) return false;
  if (posted - handled_ > kSlots) {
    end("the peer announces more requests than there is room for");
    return false;
  }
  std::memcpy(&slot_, &peers_->slots[handled_ % kSlots], sizeof slot_);
  has_slot_ = true;
  progress_ = 0;
  return true;
}

Responder::Step Responder::carry_out(std::size_t& budget) {
  if (!is_well_formed(slot_, next_offset_) || (next_offset_ != 0 && !continues(slot_, first_)))
    return refuse(Refusal::invalid_request, kInvalid);
  switch (slot_.operation) {
    case Operation::read: return answer_read(budget);
    case Operation::compare_swap:
    case Operation::fetch_add: return answer_atomic();
    default: break;
  }
  const Step placed = place(budget);
  if (placed != Step::done) return placed;
  if (next_offset_ == 0) first_ = slot_;
  next_offset_ = slot_.offset + slot_.bytes;
  return next_offset_ == slot_.message_bytes ? finish_message() : Step::done;
}

Responder::Step Responder::place(std::size_t& budget) {
  const bool sends = slot_.operation == Operation::send;
  not_ready_ = receives_.empty() && (sends || (slot_.flags & kHasImmediate) != 0);
  if (not_ready_) return Step::waits;
  std::byte* begin = nullptr;
  if (sends) {
    const auto into = receives_.front().bytes;
    if (slot_.message_bytes > into.size()) {
      receive_status_ = WorkStatus::local_length;
      return refuse(Refusal::invalid_request, "a message arrived that is longer than the posted receive");
    }
    begin = into.data();
  } else if (slot_.message_bytes != 0) {  // A WRITE of no bytes accesses no memory (IBTA C9-88).
    begin = place_of_write();
    if (begin == nullptr) return refuse(Refusal::remote_access, kOutside);
  }
  if (slot_.bytes == 0) return Step::done;
  const std::size_t extent = sends ? slot_.message_bytes : regions_.extent(RemoteKey{slot_.key});
  return copy({begin + slot_.offset, slot_.bytes}, extent, budget);
}

Responder::Step Responder::copy(std::span<std::byte> to, std::size_t extent, std::size_t& budget) {
  const auto next = to.subspan(progress_).first(std::min({to.size() - progress_, kCopyAtOnce, budget}));
  if (slot_.source == Source::staged) {
    if (slot_.where > kStagingBytes || to.size() > kStagingBytes - slot_.where)
      return refuse(Refusal::invalid_request, kInvalid);
    std::memcpy(next.data(), peers_->staging.data() + slot_.where + progress_, next.size());
  } else {
    const PayloadLocator locator{.source = slot_.source, .arena = slot_.arena, .where = slot_.where};
    switch (payload_.pull(locator, progress_, next, extent)) {
      case PayloadSource::Outcome::copied: break;
      case PayloadSource::Outcome::gone: return end("the peer has gone");
      case PayloadSource::Outcome::malformed: return refuse(Refusal::invalid_request, kInvalid);
    }
    // The sender's application may change the memory as soon as the sender's queue pair is closed. So the
    // copied bytes are valid only if that queue pair is still open after the copy.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (peers_->control.closed.load(std::memory_order_acquire) != 0) return end("the peer has gone");
  }
  bytes_copied_ += next.size();
  progress_ += static_cast<std::uint32_t>(next.size());
  budget -= std::min(budget, next.size());
  return progress_ == to.size() ? Step::done : Step::again;
}

Responder::Step Responder::finish_message() {
  next_offset_ = 0;
  const bool sends = slot_.operation == Operation::send;
  const bool redirected = !sends && redirection() != nullptr;
  if (redirected) std::erase_if(redirects_, [this](const Redirect& one) { return one.key == slot_.key; });
  if (!sends && (slot_.flags & kHasImmediate) == 0) return Step::done;
  Completion completion{.work_id = receives_.front().work_id,
                        .kind = sends ? WorkKind::receive : WorkKind::receive_write_immediate,
                        .byte_count = slot_.message_bytes,
                        .redirected = redirected};
  if ((slot_.flags & kHasImmediate) != 0) completion.immediate = slot_.immediate;
  if (sends && (slot_.flags & kInvalidates) != 0) {
    const RemoteKey key{slot_.immediate};
    if (!regions_.invalidate(key, holder_)) return refuse(Refusal::remote_access, kOutside);
    completion.invalidated = key;
  }
  receives_.pop();
  done_.push(completion);
  arrived_now_ = true;
  return Step::done;
}

Responder::Step Responder::answer_read(std::size_t& budget) {
  if (slot_.message_bytes == 0) return Step::done;
  if (peers_->control.answers_taken.load(std::memory_order_seq_cst) != answered_) return Step::waits;
  if (progress_ == slot_.message_bytes) return Step::done;
  const std::byte* const begin = resolve(RemoteAccess::read);
  if (begin == nullptr) return refuse(Refusal::remote_access, kOutside);
  const std::size_t bytes = std::min<std::size_t>(slot_.message_bytes - progress_, kAnswerBytes);
  budget -= std::min(budget, bytes);
  return answer({begin + progress_, bytes});
}

Responder::Step Responder::answer_atomic() {
  if (peers_->control.answers_taken.load(std::memory_order_seq_cst) != answered_) return Step::waits;
  if (progress_ != 0) return Step::done;
  std::byte* const at = resolve(RemoteAccess::atomic);
  if (at == nullptr) return refuse(Refusal::remote_access, kOutside);
  if (reinterpret_cast<std::uintptr_t>(at) % 8 != 0) return refuse(Refusal::invalid_request, kInvalid);
  const std::atomic_ref<std::uint64_t> value(*reinterpret_cast<std::uint64_t*>(at));
  std::uint64_t original = slot_.compare;
  if (slot_.operation == Operation::fetch_add)
    original = value.fetch_add(slot_.operand);
  else
    value.compare_exchange_strong(original, slot_.operand);
  return answer(std::as_bytes(std::span(&original, 1)));
}

Responder::Step Responder::answer(std::span<const std::byte> bytes) {
  std::memcpy(ours_.answer.data(), bytes.data(), bytes.size());
  bytes_copied_ += bytes.size();
  progress_ += static_cast<std::uint32_t>(bytes.size());
  ours_.control.answer_bytes.store(static_cast<std::uint32_t>(bytes.size()), std::memory_order_relaxed);
  ours_.control.answered.store(++answered_, std::memory_order_seq_cst);
  answered_now_ = true;
  return Step::again;
}

Responder::Step Responder::refuse(Refusal refusal, std::string_view fault) {
  ours_.control.refused.store(static_cast<std::uint32_t>(refusal), std::memory_order_seq_cst);
  return end(fault);
}

Responder::Step Responder::end(std::string_view fault) {
  fault_ = fault;
  return Step::refused;
}

void Responder::fail(WorkStatus status) {
  for (; !receives_.empty(); receives_.pop()) {
    done_.push({.work_id = receives_.front().work_id, .kind = WorkKind::receive, .status = status});
    status = WorkStatus::flushed;
  }
}

bool Responder::has_more() const {
  if (peers_ == nullptr || !fault_.empty()) return false;
  if (!has_slot_) return peers_->control.posted.load(std::memory_order_seq_cst) != handled_;
  if (not_ready_) return !receives_.empty();
  const bool asks = slot_.operation != Operation::send && slot_.operation != Operation::write;
  return !asks || peers_->control.answers_taken.load(std::memory_order_seq_cst) == answered_;
}

}  // namespace rdmc::fabric::shm
