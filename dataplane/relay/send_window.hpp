// The stretch of the schedule in which a member's sends are under way: from the first one whose write is not
// yet acknowledged to the last one looked at. It bounds both the memory of a relay and the distance by which
// writes may run ahead of one that waits. A ring of fixed size; one thread.
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
    omitted,  ///< waiting, but its block goes without bytes and needs no slot any more
    posted,
    posted_from_arena,
    posted_omitted,
    done
  };
  struct Send {
    std::uint64_t step = 0;
    std::uint64_t block = 0;
    std::uint32_t destination = 0;  ///< index in the relay's list
    State state = State::done;
  };

  /// `capacity` sends, a power of two.
  explicit SendWindow(std::uint64_t capacity) : ring_(capacity) { assert((capacity & (capacity - 1)) == 0); }

  /// From now on at least so many sends, a power of two.
  void grow(std::uint64_t capacity) {
    assert((capacity & (capacity - 1)) == 0);
    if (capacity <= ring_.size()) return;
    std::vector<Send> ring(capacity);
    for (std::uint64_t at = begin_; at < end_; ++at) ring[at & (capacity - 1)] = (*this)[at];
    ring_ = std::move(ring);
  }

  // Sends are numbered in their order.
  /// Those below are done.
  std::uint64_t begin() const { return begin_; }
  std::uint64_t end() const { return end_; }
  /// Those below are posted or done.
  std::uint64_t waiting_from() const { return waiting_from_; }
  /// Of the ring.
  std::size_t bytes() const { return ring_.capacity() * sizeof(Send); }
  bool is_full() const { return end_ - begin_ == ring_.size(); }
  bool is_empty() const { return end_ == begin_; }

  /// Steps below were looked at.
  std::uint64_t seen() const { return seen_; }

  Send& operator[](std::uint64_t number) {
    assert(number >= begin_ && number < end_);
    return ring_[number & (ring_.size() - 1)];
  }
  const Send& operator[](std::uint64_t number) const { return const_cast<SendWindow&>(*this)[number]; }

  /// The next send; no step before it that was not seen has one. Must not be full.
  void push(const Send& send) {
    assert(!is_full() && send.step >= seen_);
    ring_[end_++ & (ring_.size() - 1)] = send;
    seen_ = send.step + 1;
    advance();
  }
  /// No step below that was not seen has a send.
  void skip_to(std::uint64_t step) { seen_ = step; }

  static bool is_waiting(const Send& send) {
    return send.state == State::waiting || send.state == State::omitted;
  }
  static bool needs_slot(const Send& send) {
    return send.state != State::omitted && send.state != State::posted_omitted && send.state != State::done;
  }

  /// After states have changed.
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
