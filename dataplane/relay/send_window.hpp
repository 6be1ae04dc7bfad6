// The part of the schedule in which a member's sends are in flight: from the first send whose write is not
// yet acknowledged to the last send that was taken from the schedule. The window limits the memory of a
// relay. It also limits how many later writes can be posted while a write waits. The window is a ring buffer
// of fixed size. Only one thread may use it.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rdmc::relay {

class SendWindow {
 public:
  enum class State : std::uint8_t {
    waiting,
    omitted,  ///< The send is waiting. Its write will carry no bytes, and the block needs no slot any more.
    posted,
    posted_from_arena,
    posted_omitted,
    done
  };
  struct Send {
    std::uint64_t step = 0;
    std::uint64_t block = 0;
    std::uint32_t destination = 0;  ///< an index into the relay's list of destinations
    State state = State::done;
  };

  /// Makes a window for `capacity` sends. `capacity` must be a power of two.
  explicit SendWindow(std::uint64_t capacity) : ring_(capacity) { assert((capacity & (capacity - 1)) == 0); }

  /// Makes the window large enough for `capacity` sends. `capacity` must be a power of two.
  void grow(std::uint64_t capacity) {
    assert((capacity & (capacity - 1)) == 0);
    if (capacity <= ring_.size()) return;
    std::vector<Send> ring(capacity);
    for (std::uint64_t at = begin_; at < end_; ++at) ring[at & (capacity - 1)] = (*this)[at];
    ring_ = std::move(ring);
  }

  // The sends are numbered in their order.
  /// All sends below this number are done.
  std::uint64_t begin() const { return begin_; }
  std::uint64_t end() const { return end_; }
  /// All sends below this number are posted or done.
  std::uint64_t waiting_from() const { return waiting_from_; }
  /// The size of the ring buffer in bytes.
  std::size_t bytes() const { return ring_.capacity() * sizeof(Send); }
  bool is_full() const { return end_ - begin_ == ring_.size(); }
  bool is_empty() const { return end_ == begin_; }

  /// The sends of all steps below this step were taken from the schedule.
  std::uint64_t seen() const { return seen_; }

  Send& operator[](std::uint64_t number) {
    assert(number >= begin_ && number < end_);
    return ring_[number & (ring_.size() - 1)];
  }
  const Send& operator[](std::uint64_t number) const { return const_cast<SendWindow&>(*this)[number]; }

  /// Adds the next send. The window must not be full. Precondition: sends are added in the order of their
  /// steps. So this member sends nothing in the steps from seen() up to the step before the step of `send`.
  void push(const Send& send) {
    assert(!is_full() && send.step >= seen_);
    ring_[end_++ & (ring_.size() - 1)] = send;
    seen_ = send.step + 1;
    advance();
  }
  /// Marks all steps below `step` as seen. Precondition: this member sends nothing in the steps from seen()
  /// up to `step` - 1.
  void skip_to(std::uint64_t step) { seen_ = step; }

  static bool is_waiting(const Send& send) {
    return send.state == State::waiting || send.state == State::omitted;
  }
  static bool needs_slot(const Send& send) {
    return send.state != State::omitted && send.state != State::posted_omitted && send.state != State::done;
  }

  /// Must be called after the state of a send has changed.
  void advance() {
    while (begin_ < end_ && (*this)[begin_].state == State::done) ++begin_;
    if (waiting_from_ < begin_) waiting_from_ = begin_;
    while (waiting_from_ < end_ && !is_waiting((*this)[waiting_from_])) ++waiting_from_;
  }

 private:
  std::vector<Send> ring_;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t waiting_from_ = 0;
  std::uint64_t seen_ = 0;
};

}  // namespace rdmc::relay
