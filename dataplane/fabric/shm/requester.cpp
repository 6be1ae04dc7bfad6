#include "dataplane/fabric/shm/requester.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace rdmc::fabric::shm {
namespace {

bool asks(const Work& work) {
  return work.kind == WorkKind::read || work.kind == WorkKind::atomic;
}

WorkStatus status_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::none: return WorkStatus::success;
    case Refusal::invalid_request: return WorkStatus::remote_invalid_request;
    case Refusal::remote_access: return WorkStatus::remote_access;
  }
  return WorkStatus::remote_operational;
}

/// True if count `a` has reached `b`, modulo 2^32.
bool reached(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>(a - b) >= 0;
}

}  // namespace

void Requester::post(const Work& work) {
  works_.push({.work = work});
  publish();
}

std::size_t Requester::publish() {
  if (peers_ == nullptr) return 0;
  std::size_t pieces = 0;
  while (next_ != works_.tail()) {
    Posted& posted = works_[next_];
    while (!posted.published) {
      if (posted_ - handled_ == kSlots || !publish_piece(posted)) return pieces;
      ++pieces;
    }
    ++next_;
  }
  return pieces;
}

bool Requester::publish_piece(Posted& posted) {
  const Work& work = posted.work;
  RequestSlot slot = work.request;
  slot.offset = posted.piece_offset;
  slot.message_bytes = static_cast<std::uint32_t>(asks(work) ? posted.target().size() : work.bytes.size());
  const auto rest = work.bytes.subspan(posted.piece_offset);
  slot.bytes = static_cast<std::uint32_t>(rest.size());
  slot.source = Source::staged;
  if (!rest.empty()) {
    const bool small = work.bytes.size() <= kAlwaysStaged;
    // If the first piece of a message was staged, the other pieces are staged too.
    const auto locator = small || slot.offset != 0 ? std::nullopt : payload_.offer(work.bytes);
    if (locator) {
      slot.source = locator->source;
      slot.arena = locator->arena;
      slot.where = locator->where;
    } else {
      slot.bytes = static_cast<std::uint32_t>(std::min(rest.size(), kStagedPiece));
      std::byte* const room = stage(slot.bytes);
      if (room == nullptr) return false;
      std::memcpy(room, rest.data(), slot.bytes);
      bytes_copied_ += slot.bytes;
      slot.where = static_cast<std::uint64_t>(room - ours_.staging.data());
    }
  }
  ours_.slots[posted_ % kSlots] = slot;
  staged_until_[posted_ % kSlots] = staged_;
  posted.published = slot.bytes == rest.size();
  posted.end = posted_ + 1;
  posted.piece_offset = posted.published ? 0 : slot.offset + slot.bytes;
  // Both this store and the peer's last check before its sleep are sequentially consistent (see Doorbell).
  ours_.control.posted.store(++posted_, std::memory_order_seq_cst);
  published_ = true;
  return true;
}

/// Reserves `bytes` contiguous bytes of the staging memory. Returns null if the staging memory has too little
/// free space now.
std::byte* Requester::stage(std::size_t bytes) {
  std::uint64_t begin = staged_;
  if (begin % kStagingBytes + bytes > kStagingBytes) begin += kStagingBytes - begin % kStagingBytes;
  if (begin + bytes - staged_free_ > kStagingBytes) return nullptr;
  staged_ = begin + bytes;
  return ours_.staging.data() + begin % kStagingBytes;
}

std::size_t Requester::turn() {
  if (peers_ == nullptr || !fault_.empty() || refusal_ != WorkStatus::success) return 0;
  std::size_t done = complete();
  if (fault_.empty() && refusal_ == WorkStatus::success) done += publish();
  return done;
}

std::size_t Requester::complete() {
  const QueueControl& theirs = peers_->control;
  // `answered` must be read before `handled`. An answer belongs to the request whose number was the value of
  // `handled` when the answer was published.
  const std::uint32_t answered = theirs.answered.load(std::memory_order_seq_cst);
  const auto refused = static_cast<Refusal>(theirs.refused.load(std::memory_order_acquire));
  const std::uint32_t handled = theirs.handled.load(std::memory_order_seq_cst);
  if (handled - handled_ > posted_ - handled_) {
    fault_ = "the peer counts requests that were never posted";
    return 0;
  }
  std::size_t done = 0;
  if (handled != handled_) {
    handled_ = handled;
    staged_free_ = staged_until_[(handled - 1) % kSlots];
    while (!works_.empty() && works_.front().published && reached(handled, works_.front().end)) {
      Posted& front = works_.front();
      if (asks(front.work) && front.piece_offset != front.target().size()) {
        fault_ = "the peer answered less than a READ asked for";
        return done;
      }
      push(front, WorkStatus::success);
      works_.pop();
      ++done;
    }
    ++done;
  }
  if (refused != Refusal::none) {
    if (works_.empty()) {
      fault_ = "the peer refuses what was never posted";
    } else {
      refusal_ = status_of(refused);
    }
    return done + 1;
  }
  if (answered != answers_taken_ && fault_.empty() && take_answer()) ++done;
  return done;
}

bool Requester::take_answer() {
  if (works_.empty() || !works_.front().published || !asks(works_.front().work)) {
    fault_ = "the peer answers what was never asked";
    return false;
  }
  Posted& front = works_.front();
  const std::size_t bytes = peers_->control.answer_bytes.load(std::memory_order_relaxed);
  const auto rest = front.target().subspan(front.piece_offset);
  if (bytes == 0 || bytes > kAnswerBytes || bytes > rest.size()) {
    fault_ = "the peer's answer is longer than what was asked for";
    return false;
  }
  std::memcpy(rest.data(), peers_->answer.data(), bytes);
  bytes_copied_ += bytes;
  front.piece_offset += static_cast<std::uint32_t>(bytes);
  ours_.control.answers_taken.store(++answers_taken_, std::memory_order_seq_cst);
  published_ = true;
  return true;
}

void Requester::push(const Posted& posted, WorkStatus status) {
  Completion completion{.work_id = posted.work.work_id, .kind = posted.work.kind, .status = status};
  if (status == WorkStatus::success && asks(posted.work))
    completion.byte_count = static_cast<std::uint32_t>(posted.work.target.size());
  if (posted.work.kind == WorkKind::atomic) completion.original = posted.original;
  done_.push(completion);
}

void Requester::fail(WorkStatus status) {
  for (; !works_.empty(); works_.pop()) {
    push(works_.front(), status);
    status = WorkStatus::flushed;
  }
  next_ = works_.tail();
}

bool Requester::has_news() const {
  if (peers_ == nullptr) return false;
  const QueueControl& theirs = peers_->control;
  return theirs.handled.load(std::memory_order_seq_cst) != handled_ ||
         theirs.answered.load(std::memory_order_seq_cst) != answers_taken_ ||
         theirs.refused.load(std::memory_order_acquire) != 0;
}

// Asks to be woken when half of the requests in flight are done. While this side wakes up and posts more, the
// peer still has the other half to work on.
void Requester::ask_to_be_woken() {
  const std::uint32_t under_way = posted_ - handled_;
  ours_.control.wake_at.store(handled_ + (under_way + 1) / 2, std::memory_order_seq_cst);
}

}  // namespace rdmc::fabric::shm
