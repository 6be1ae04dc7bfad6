// Messages small enough to travel inside the frames of links: those that could not be passed on or delivered
// at once wait here, in their order, and a window bounds how many the root may have sent that somebody has
// not delivered. Pure; one thread.
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

/// What a small message takes of the window: its bytes, and about what keeping it costs.
constexpr std::uint64_t small_charge(std::size_t bytes) {
  return bytes + 64;
}

class SmallMessages {
 public:
  struct Entry {
    std::uint64_t number = 0;
    std::span<const std::byte> bytes;
    std::vector<std::byte> kept;        ///< what `bytes` is in, unless it is the application's
    std::optional<MappedMessage> view;  ///< it is in the root's memory, and `bytes` is empty
    std::uint64_t charge = 0;           ///< that it takes of the window here
    bool forwarded = false;
    bool released = false;  ///< a view: the application needs it no longer
  };

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  Entry& front() { return entries_.front(); }
  void pop_front() { entries_.pop_front(); }
  /// Numbers ascend. `copy`: the bytes go away.
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
  /// The first that was not passed on; all behind it were not, either.
  Entry* next_to_forward() {
    const auto found = std::ranges::partition_point(entries_, &Entry::forwarded);
    return found == entries_.end() ? nullptr : &*found;
  }

 private:
  std::deque<Entry> entries_;
};

/// The root's books of what it may send.
class SmallWindow {
 public:
  /// Small messages that somebody has not delivered, at most: numbers far ahead are a protocol error.
  static constexpr std::uint64_t kMostAhead = 16384;
  /// And that somebody has not finished, since what it delivered keeps its place until all before it is.
  static constexpr std::uint64_t kMostUnfinished = 4 * kMostAhead;

  explicit SmallWindow(std::uint64_t bytes) : bytes_(bytes) {}
  /// Everybody has delivered so much, and all others finished so much.
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
