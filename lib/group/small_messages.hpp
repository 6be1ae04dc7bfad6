// Small messages, which travel inside the frames of links. Messages that cannot be passed on or delivered at
// once wait here in order. The small-message window limits how many messages the root may send before every
// member has delivered earlier ones. A core without I/O; one thread uses it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "lib/group/records.hpp"

namespace rdmc::group {

/// The charge of a small message against the window: the number of its bytes, plus an estimate of the
/// overhead of keeping it.
constexpr std::uint64_t small_charge(std::size_t bytes) {
  return bytes + 64;
}

class SmallMessages {
 public:
  struct Entry {
    std::uint64_t number = 0;
    std::span<const std::byte> bytes;
    std::vector<std::byte> kept;  ///< The memory of `bytes`, if they were copied.
    /// Set for a mapped message, which lies in the root's memory. `bytes` is empty then.
    std::optional<MappedMessage> mapped;
    std::uint64_t charge = 0;  ///< The charge at this member.
    bool forwarded = false;
    bool released = false;  ///< For a mapped message: the application no longer needs it.
  };

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  Entry& front() { return entries_.front(); }
  void pop_front() { entries_.pop_front(); }
  /// Adds a message. The numbers of the messages must ascend. `copy` must be set if the bytes do not stay
  /// valid after the call.
  Entry& add(Entry small, bool copy) {
    Entry& entry = entries_.emplace_back(std::move(small));
    if (copy) entry.kept.assign(entry.bytes.begin(), entry.bytes.end());
    if (copy) entry.bytes = entry.kept;
    return entry;
  }
  Entry* find(std::uint64_t number) {
    const auto found = std::ranges::lower_bound(entries_, number, {}, &Entry::number);
    return found == entries_.end() || found->number != number ? nullptr : &*found;
  }
  /// Returns the first message that was not passed on, or null if there is none. No message after it was
  /// passed on either.
  Entry* next_to_forward() {
    const auto found = std::ranges::partition_point(entries_, &Entry::forwarded);
    return found == entries_.end() ? nullptr : &*found;
  }

 private:
  std::deque<Entry> entries_;
};

/// The root's bookkeeping of the small messages that it may send.
class SmallWindow {
 public:
  /// A limit for the root. Let n be the number of the first message that some member has not delivered. The
  /// root may send a message only if its number is below n + kMostAhead. A higher number is a protocol error.
  static constexpr std::uint64_t kMostAhead = 16384;
  /// The corresponding limit if n is the number of the first message that some member has not finished. A
  /// delivered message is kept until all messages before it are finished.
  static constexpr std::uint64_t kMostUnfinished = 4 * kMostAhead;

  explicit SmallWindow(std::uint64_t bytes) : bytes_(bytes) {}
  /// Called when every member has delivered messages below `delivered`, with this `charge`, and all members
  /// other than the root have finished the messages below `finished`.
  void confirmed(std::uint64_t delivered, std::uint64_t finished, std::uint64_t charge) {
    delivered_ = delivered;
    finished_ = finished;
    charge_ = charge;
  }
  bool admits(std::uint64_t number, std::size_t bytes) const {
    return number < delivered_ + kMostAhead && number < finished_ + kMostUnfinished &&
           sent_ + small_charge(bytes) <= charge_ + bytes_;
  }
  void sent(std::size_t bytes) { sent_ += small_charge(bytes); }
  std::uint64_t charge() const { return sent_; }

 private:
  std::uint64_t bytes_;
  std::uint64_t delivered_ = 0, finished_ = 0, sent_ = 0, charge_ = 0;
};

}  // namespace rdmc::group
