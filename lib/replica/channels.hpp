// Logical channels. A channel is the sequence of the messages of one rank to another rank with the same
// communicator and tag. All replicas of the sender send the same messages in a channel, in the same order, so
// each message has the same sequence number in all replicas (send-determinism for each channel;
// SDR-MPI, 3.1). The number finds messages that come twice, and messages that are missing.
//
// Plain data. The Messenger owns it, on the thread that runs the engine.
#pragma once

#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "lib/replica/records.hpp"
#include "lib/replica/replication.hpp"
#include "lib/replica/slab.hpp"

namespace rdmc::replica {

inline constexpr std::uint32_t kNoIndex = std::numeric_limits<std::uint32_t>::max();

/// True if `a` is before `b`. Sequence numbers wrap around (RFC 1982).
constexpr bool is_before(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>(a - b) < 0;
}

struct ChannelKeyHash {
  std::size_t operator()(const ChannelKey& key) const {
    const std::uint64_t low = std::uint64_t{value_of(key.rank)} << 32 | static_cast<std::uint32_t>(key.tag);
    std::uint64_t mixed = (low ^ static_cast<std::uint64_t>(key.context) << 17) * 0x9E37'79B9'7F4A'7C15;
    return static_cast<std::size_t>(mixed ^ mixed >> 32);
  }
};

/// A channel in which this process sends.
struct OutgoingChannel {
  std::uint32_t next = 0;  ///< the number of the next message
  /// For each replica of the receiver: it has all messages before this one.
  std::vector<std::uint32_t> acknowledged;
  /// The messages that somebody has not acknowledged, in order. They are linked by Outgoing::next_kept.
  std::uint32_t first_kept = kNoIndex, last_kept = kNoIndex;
};

/// A channel in which this process receives.
struct IncomingChannel {
  std::uint32_t expected = 0;  ///< the number of the next new message
  /// The arrivals that were announced and are not complete, in order.
  std::vector<std::uint32_t> open;
  ReplicaSet due = 0;  ///< the replicas of the sender to which an acknowledgement is due
  /// For each replica of this rank that has said so: it has seen all messages before this one.
  std::vector<std::uint32_t> seen;
  /// This process has asked the others about all messages before this one.
  std::uint32_t asked = 0;
  /// A replica of this rank that waits until this process has seen all messages before this one.
  struct Waiting {
    ProcessId process{};
    std::uint32_t sequence = 0;
  };
  std::vector<Waiting> waiting;
};

/// True if nothing is due in the channel, and nothing arrives.
inline bool is_unused(const IncomingChannel& channel) {
  return channel.due == 0 && channel.open.empty() && channel.waiting.empty();
}

/// Finds a channel by its key. A channel keeps its index until it is removed.
template <typename Channel>
class ChannelTable {
 public:
  using Index = std::uint32_t;

  /// Returns kNoIndex if there is no such channel.
  Index find(const ChannelKey& key) const {
    if (last_ != kNoIndex && last_key_ == key) return last_;
    const auto found = indices_.find(key);
    return found == indices_.end() ? kNoIndex : remember(key, found->second);
  }
  Index find_or_add(const ChannelKey& key) {
    if (const Index index = find(key); index != kNoIndex) return index;
    const Index index = channels_.add({.key = key, .channel = {}});
    indices_.emplace(key, index);
    return remember(key, index);
  }
  Channel& operator[](Index index) { return channels_[index].channel; }
  const Channel& operator[](Index index) const { return channels_[index].channel; }
  const ChannelKey& key(Index index) const { return channels_[index].key; }
  /// Calls `function` with each key, index and channel.
  template <typename Function>
  void for_each(Function function) {
    for (Index i = 0; i < channels_.end(); ++i)
      if (Entry* const entry = channels_.find(i)) function(entry->key, i, entry->channel);
  }
  void remove(Index index) {
    last_ = kNoIndex;
    indices_.erase(channels_[index].key);
    channels_.remove(index);
  }
  std::size_t size() const { return channels_.size(); }

 private:
  struct Entry {
    ChannelKey key;
    Channel channel;
  };
  Index remember(const ChannelKey& key, Index index) const {
    last_key_ = key;
    return last_ = index;
  }

  Slab<Entry> channels_;
  std::unordered_map<ChannelKey, Index, ChannelKeyHash> indices_;
  mutable ChannelKey last_key_;
  mutable Index last_ = kNoIndex;  ///< the channel that was found last
};

}  // namespace rdmc::replica
