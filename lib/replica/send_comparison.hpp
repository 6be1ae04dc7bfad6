// Compares what the replicas of a rank send. Each replica reports its messages to the other replicas of its
// rank: the length of each message, and a digest of its bytes if the run verifies messages. Messages are
// compared channel by channel, in the order of their numbers, when all living replicas have reported them. So
// each replica finds each difference, and can name the minority. The comparison depends neither on the
// replication protocol nor on who has sent a message to whom.
//
// Equal messages that follow each other are stored and reported as one entry. Memory is bounded: if a replica
// is very far ahead of another one, the messages in between are not compared, and are counted.
//
// A core without I/O and without a clock. The Messenger owns it, on the thread that runs the engine.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "lib/replica/channels.hpp"
#include "lib/replica/send_difference.hpp"

namespace rdmc::replica {

/// SentMessages that follow each other without a gap.
class SentQueue {
 public:
  SentQueue() = default;
  explicit SentQueue(std::uint32_t begin) : begin_(begin), end_(begin) {}

  /// The number of the first message, and of the message after the last one.
  std::uint32_t begin() const { return begin_; }
  std::uint32_t end() const { return end_; }
  bool is_empty() const { return begin_ == end_; }
  std::size_t entries() const { return entries_.size() - first_; }
  /// Precondition: !is_empty().
  const SentMessages& front() const { return entries_[first_]; }
  void append(const SentMessages& sent);
  /// Removes the first `count` messages. They must belong to front().
  void pop(std::uint32_t count);
  /// Calls `function` with the messages from number `from` on, until it returns false.
  template <typename Function>
  void for_each_from(std::uint32_t from, Function function) const {
    std::uint32_t at = begin_;
    for (std::size_t i = first_; i < entries_.size(); ++i) {
      SentMessages sent = entries_[i];
      const std::uint32_t next = at + sent.count;
      if (is_before(from, next)) {
        if (is_before(at, from)) sent.count = next - from;
        if (!function(sent)) return;
      }
      at = next;
    }
  }

 private:
  std::uint32_t begin_ = 0, end_ = 0;
  std::vector<SentMessages> entries_;
  std::size_t first_ = 0;  ///< the index of the first entry that is used
};

class SendComparison {
 public:
  /// The largest number of entries that are stored of each replica of the rank, in all channels together. One
  /// more is stored for each channel.
  static constexpr std::size_t kMostEntries = 1 << 16;
  /// The largest number of channels in which only other replicas have sent.
  static constexpr std::size_t kMostEarlyChannels = 1 << 16;
  /// The largest number of entries of one report.
  static constexpr std::size_t kMostInReport = 64;
  /// If this number of messages is not reported, reports must not wait any more.
  static constexpr std::uint32_t kManyUnreported = 1024;

  /// The largest number of differences that wait for take_differences(). Further ones are dropped.
  static constexpr std::size_t kMostDifferences = 64;

  SendComparison(const Layout& layout, const ReplicaId& self);

  /// True if the rank has replicas. Otherwise no other function must be called.
  bool is_active() const { return due_.size() > 1; }

  /// This replica sends the next message of a channel.
  void note_sent(const ChannelKey& channel, const SentMessage& sent);
  /// The program has ended its part here.
  void end();
  /// Another replica has reported messages, or the end of its program. Errors: protocol_error.
  Result<void> on_report(std::uint32_t replica, const SendReport& report);
  void on_ended(std::uint32_t replica);
  /// True if the program has ended at all living replicas, so that everything has been compared.
  bool is_over() const;

  /// The living replicas to which something must be reported.
  ReplicaSet due() const;
  bool has_many_unreported() const { return unreported_ >= kManyUnreported; }
  void begin_reports() { unreported_ = 0; }
  /// Returns the next record for a replica, if there is one. Its memory is valid until the next call.
  std::optional<Record> next_report(std::uint32_t replica);
  /// The record that next_report() has returned for this replica is being sent.
  void note_reported(std::uint32_t replica);

  void on_died(std::uint32_t replica);
  /// A new process, which is a copy of a replica of this rank, takes the place of a dead one.
  void on_replaced(std::uint32_t replica);
  /// In the copy: this is the replica `self` from now on.
  void become(std::uint32_t self);

  /// Increases when something was sent, reported or ended, or when a replica died or was replaced.
  std::uint64_t changes() const { return changes_; }
  /// True if this replica knows of messages that were not compared.
  bool has_uncompared() const {
    return std::ranges::any_of(entries_, [](std::size_t n) { return n != 0; });
  }
  /// Nothing has changed for a long time. If this replica and another one have each sent a message that the
  /// other one has not sent, then they wait for ever, because neither of them is only slower. This is a
  /// difference.
  void judge_waiting();

  bool knows(const ChannelKey& channel) const { return channels_.find(channel) != kNoIndex; }
  /// A communicator has ended here. Its channels are forgotten when all of their messages have been compared.
  void close(ContextId context);

  std::vector<SendDifference> take_differences() { return std::exchange(differences_, {}); }
  bool has_differences() const { return !differences_.empty(); }
  /// The number of messages that were not compared, because a replica was too far ahead.
  std::uint64_t uncompared() const { return uncompared_; }
  /// The number of stored entries, and of channels. For tests of the bounds.
  std::size_t entries() const { return std::accumulate(entries_.begin(), entries_.end(), std::size_t{0}); }
  std::size_t channels() const { return channels_.size(); }

 private:
  struct Channel {
    std::vector<SentQueue> sent;  ///< of each replica, from the first message that was not compared on
    /// The replicas that have replaced a dead one, and have reported nothing in this channel yet. So the
    /// number of their next message is not known.
    ReplicaSet unknown = 0;
    std::vector<std::uint32_t> reported;  ///< to each replica: all messages before this one
    ReplicaSet due = 0;                   ///< the replicas in whose list the channel is
    std::uint64_t since = 0;  ///< `changes_` when this replica had sent something that was not compared
    bool is_early = false;    ///< this replica has sent nothing in it
    bool is_closed = false;
    bool is_broken = false;  ///< a replica lacks a message, so nothing more can be compared
  };
  using Index = ChannelTable<Channel>::Index;

  ReplicaSet others() const { return living_ & ~set_of(self_); }
  Index channel_of(const ChannelKey& key);
  void append(Channel& channel, std::uint32_t replica, SentMessages sent);
  void drop(Channel& channel, std::uint32_t replica, std::uint32_t next);
  void mark_due(Index index, ReplicaSet replicas);
  bool compare_next(Index index);
  void note_difference(const ChannelKey& key, const Channel& channel);
  void compare(Index index);
  void compare_all();
  template <typename Function>
  void for_each_index(Function function);

  const Rank rank_;
  std::uint32_t self_;
  ReplicaSet living_;
  ReplicaSet replaced_ = 0;  ///< the living replicas that have replaced a dead one
  ReplicaSet ended_ = 0;     ///< the replicas whose program has ended, as far as this one knows
  ReplicaSet told_end_ = 0;  ///< the replicas to which the end of this one was reported
  ChannelTable<Channel> channels_;
  std::vector<std::vector<Index>> due_;  ///< for each replica: the channels with something to report
  std::vector<std::size_t> entries_;     ///< the number of stored entries of each replica
  std::size_t early_ = 0;                ///< the number of channels that are early
  std::uint32_t unreported_ = 0;
  std::uint64_t changes_ = 0;
  std::uint64_t uncompared_ = 0;
  std::vector<SendDifference> differences_;
  std::array<std::byte, kMostInReport * kSentMessagesBytes> encoded_{};
  std::uint32_t encoded_end_ = 0;  ///< the number after the last message of the report that is in `encoded_`
};

}  // namespace rdmc::replica
