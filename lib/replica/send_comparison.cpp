#include "lib/replica/send_comparison.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

namespace rdmc::replica {
namespace {

bool is_known(const SentMessages& sent) {
  return sent.bytes != SentMessages::kUnknown;
}

}  // namespace

void SentQueue::append(const SentMessages& sent) {
  end_ += sent.count;
  if (entries() != 0) {
    SentMessages& last = entries_.back();
    if (last.bytes == sent.bytes && last.digest == sent.digest &&
        sent.count <= kMostSentMessages - std::min(last.count, kMostSentMessages)) {
      last.count += sent.count;
      return;
    }
  }
  if (first_ > entries_.size() / 2) {
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
  entries_.push_back(sent);
}

void SentQueue::pop(std::uint32_t count) {
  assert(count <= front().count);
  begin_ += count;
  entries_[first_].count -= count;
  if (entries_[first_].count != 0) return;
  if (++first_ != entries_.size()) return;
  entries_.clear();
  first_ = 0;
}

SendComparison::SendComparison(const Layout& layout, const ReplicaId& self)
    : rank_(self.rank),
      self_(self.replica),
      living_(~ReplicaSet{0} >> (kMostDegree - layout.degree(self.rank))),
      due_(layout.degree(self.rank)),
      entries_(layout.degree(self.rank)) {}

SendComparison::Index SendComparison::channel_of(const ChannelKey& key) {
  const Index index = channels_.find_or_add(key);
  Channel& channel = channels_[index];
  if (channel.sent.empty()) {
    channel.sent.resize(due_.size());
    channel.reported.resize(due_.size());
    channel.unknown = replaced_;
    channel.is_early = true;
    ++early_;
  }
  return index;
}

void SendComparison::append(Channel& channel, std::uint32_t replica, SentMessages sent) {
  if (entries_[replica] >= kMostEntries) {
    if (is_known(sent)) uncompared_ += sent.count;
    sent = {.count = sent.count, .bytes = SentMessages::kUnknown, .digest = 0};
  }
  entries_[replica] -= channel.sent[replica].entries();
  channel.sent[replica].append(sent);
  entries_[replica] += channel.sent[replica].entries();
}

// Forgets the messages of a replica. Its next message has the number `next`.
void SendComparison::drop(Channel& channel, std::uint32_t replica, std::uint32_t next) {
  entries_[replica] -= channel.sent[replica].entries();
  channel.sent[replica] = SentQueue(next);
}

void SendComparison::mark_due(Index index, ReplicaSet replicas) {
  replicas &= ~channels_[index].due;
  channels_[index].due |= replicas;
  for_each_replica(replicas, [&](std::uint32_t replica) { due_[replica].push_back(index); });
}

void SendComparison::note_sent(const ChannelKey& key, const SentMessage& sent) {
  const Index index = channel_of(key);
  Channel& channel = channels_[index];
  if (std::exchange(channel.is_early, false)) --early_;
  ++changes_;
  if (channel.sent[self_].is_empty()) channel.since = changes_;
  append(channel, self_, {.count = 1, .bytes = sent.bytes, .digest = sent.digest});
  ++unreported_;
  mark_due(index, others());
  if (others() == 0) compare(index);
}

void SendComparison::end() {
  on_ended(self_);
}

void SendComparison::on_ended(std::uint32_t replica) {
  ++changes_;
  ended_ |= set_of(replica);
  compare_all();
}

bool SendComparison::is_over() const {
  return (living_ & ~ended_) == 0 && (others() & ~told_end_) == 0;
}

Result<void> SendComparison::on_report(std::uint32_t replica, const SendReport& report) {
  if (early_ >= kMostEarlyChannels && !knows(report.channel))
    return fail(Errc::protocol_error, "reports of too many channels in which this replica has not sent");
  ++changes_;
  const Index index = channel_of(report.channel);
  Channel& channel = channels_[index];
  if ((channel.unknown & set_of(replica)) != 0) {
    // The messages before this one were compared with those of the process that was forked.
    channel.unknown &= ~set_of(replica);
    const std::uint32_t next = channel.sent[replica].end();
    if (is_before(next, report.first))
      append(channel, replica, {.count = report.first - next, .bytes = SentMessages::kUnknown});
  }
  std::uint32_t known = channel.sent[replica].end() - report.first;
  if (is_before(channel.sent[replica].end(), report.first))
    return fail(Errc::protocol_error, "a report that leaves out messages");
  for (std::size_t i = 0; i < report.sent.size() / kSentMessagesBytes; ++i) {
    auto sent = sent_at(report.sent, i);
    if (!sent) return std::unexpected(sent.error());
    const std::uint32_t repeated = std::min(known, sent->count);
    known -= repeated;
    sent->count -= repeated;
    if (sent->count != 0) append(channel, replica, *sent);
  }
  compare(index);
  return {};
}

ReplicaSet SendComparison::due() const {
  ReplicaSet due = (ended_ & set_of(self_)) != 0 ? ~told_end_ : 0;
  for (std::uint32_t replica = 0; replica < due_.size(); ++replica)
    if (!due_[replica].empty()) due |= set_of(replica);
  return due & others();
}

std::optional<Record> SendComparison::next_report(std::uint32_t replica) {
  if (due_[replica].empty()) {
    const bool is_told = (told_end_ & set_of(replica)) != 0 || (ended_ & set_of(self_)) == 0;
    return is_told ? std::nullopt : std::optional<Record>(SendsEnded{});
  }
  const Index index = due_[replica].back();
  const Channel& channel = channels_[index];
  const std::uint32_t first = channel.reported[replica];
  std::size_t used = 0;
  encoded_end_ = first;
  channel.sent[self_].for_each_from(first, [&](const SentMessages& sent) {
    put_sent(encoded_.data() + used, sent);
    used += kSentMessagesBytes;
    encoded_end_ += sent.count;
    return used < encoded_.size();
  });
  return SendReport{.channel = channels_.key(index), .first = first, .sent = std::span(encoded_).first(used)};
}

void SendComparison::note_reported(std::uint32_t replica) {
  if (due_[replica].empty()) {
    told_end_ |= set_of(replica);
    return;
  }
  const Index index = due_[replica].back();
  Channel& channel = channels_[index];
  channel.reported[replica] = encoded_end_;
  if (encoded_end_ == channel.sent[self_].end()) {
    due_[replica].pop_back();
    channel.due &= ~set_of(replica);
  }
  compare(index);
}

// Compares the next messages of a channel. Returns false if a replica has not reported them yet, or if there
// are none.
bool SendComparison::compare_next(Index index) {
  Channel& channel = channels_[index];
  const SentQueue& own = channel.sent[self_];
  std::uint32_t count = std::numeric_limits<std::uint32_t>::max();
  std::optional<SentMessages> first;
  bool is_complete = true, is_lacking = false, are_equal = true;
  ReplicaSet senders = 0;
  for_each_replica(living_, [&](std::uint32_t replica) {
    const SentQueue& sent = channel.sent[replica];
    // Own messages stay until all others have their report.
    if (replica != self_ && !own.is_empty()) count = std::min(count, channel.reported[replica] - own.begin());
    if (sent.is_empty()) {
      is_complete = is_complete && (ended_ & set_of(replica)) != 0;
      is_lacking = true;
      return;
    }
    senders |= set_of(replica);
    count = std::min(count, sent.front().count);
    if (!is_known(sent.front())) return;
    if (!first) first = sent.front();
    are_equal = are_equal && first->bytes == sent.front().bytes && first->digest == sent.front().digest;
  });
  if (!is_complete || senders == 0 || count == 0) return false;
  if (is_lacking || !are_equal) {
    count = 1;
    note_difference(channels_.key(index), channel);
    channel.is_broken = is_lacking;
  }
  for_each_replica(senders, [&](std::uint32_t replica) {
    entries_[replica] -= channel.sent[replica].entries();
    channel.sent[replica].pop(count);
    entries_[replica] += channel.sent[replica].entries();
  });
  return !channel.is_broken;
}

void SendComparison::judge_waiting() {
  ReplicaSet ahead = 0,
             behind = 0;  // The replicas that have a message which this one lacks, and the opposite.
  const auto for_each_gap = [&](auto function) {
    channels_.for_each([&](const ChannelKey&, Index index, const Channel& channel) {
      for_each_replica(others(), [&](std::uint32_t replica) {
        const bool has_own = !channel.sent[self_].is_empty(), has_other = !channel.sent[replica].is_empty();
        if (has_own != has_other && !channel.is_broken) function(index, replica, has_own);
      });
    });
  };
  for_each_gap(
      [&](Index, std::uint32_t replica, bool has_own) { (has_own ? behind : ahead) |= set_of(replica); });
  Index first = kNoIndex;
  for_each_gap([&](Index index, std::uint32_t replica, bool has_own) {
    if (!has_own || (ahead & behind & set_of(replica)) == 0) return;
    if (first == kNoIndex || channels_[index].since < channels_[first].since) first = index;
  });
  if (first == kNoIndex) return;
  channels_[first].is_broken = true;
  note_difference(channels_.key(first), channels_[first]);
}

void SendComparison::note_difference(const ChannelKey& key, const Channel& channel) {
  SendDifference difference{.source = rank_, .channel = key, .versions = {}};
  for_each_replica(living_, [&](std::uint32_t replica) {
    const SentQueue& sent = channel.sent[replica];
    SendDifference::Version version{.replica = replica};
    if (!sent.is_empty()) {
      difference.sequence = sent.begin();
      if (!is_known(sent.front())) return;
      version.sent = {.bytes = sent.front().bytes, .digest = sent.front().digest};
    }
    difference.versions.push_back(version);
  });
  if (differences_.size() < kMostDifferences) differences_.push_back(std::move(difference));
}

// Compares what can be compared in a channel. Forgets the channel if nothing more is expected in it.
void SendComparison::compare(Index index) {
  while (!channels_[index].is_broken && compare_next(index)) {
  }
  const Channel& channel = channels_[index];
  if (!channel.is_closed || channel.due != 0) return;
  if (!std::ranges::all_of(channel.sent, &SentQueue::is_empty)) return;
  if (channel.is_early) --early_;
  channels_.remove(index);
}

template <typename Function>
void SendComparison::for_each_index(Function function) {
  channels_.for_each([&](const ChannelKey&, Index index, Channel&) { function(index); });
}

void SendComparison::compare_all() {
  for_each_index([this](Index index) { compare(index); });
}

void SendComparison::on_died(std::uint32_t replica) {
  const ReplicaSet bit = set_of(replica);
  ++changes_;
  living_ &= ~bit;
  ended_ &= ~bit;
  told_end_ &= ~bit;
  replaced_ &= ~bit;
  due_[replica].clear();
  for_each_index([&](Index index) {
    Channel& channel = channels_[index];
    channel.due &= ~bit;
    channel.unknown &= ~bit;
    drop(channel, replica, channel.sent[self_].begin());
  });
  compare_all();
}

// The new process has the history of its parent, which this replica does not know. So its first report in
// each channel says where it goes on. All channels are reported in both directions for this. The parent may
// learn of the recovery later than this replica. So it may compare messages of a channel that this replica
// has only made since then, and the first report of the new process comes after them.
void SendComparison::on_replaced(std::uint32_t replica) {
  const ReplicaSet bit = set_of(replica);
  ++changes_;
  living_ |= bit;
  replaced_ |= bit;
  ended_ &= ~bit;
  told_end_ &= ~bit;
  for_each_index([&](Index index) {
    Channel& channel = channels_[index];
    const std::uint32_t next = channel.sent[self_].begin();
    drop(channel, replica, next);
    channel.unknown |= bit;
    channel.reported[replica] = next;
    mark_due(index, bit);
  });
}

void SendComparison::become(std::uint32_t self) {
  const std::uint32_t parent = std::exchange(self_, self);
  const bool has_ended = (ended_ & set_of(parent)) != 0;
  ended_ &= ~(set_of(parent) | set_of(self));
  if (has_ended) ended_ |= set_of(self);
  told_end_ = 0;
  replaced_ &= ~set_of(self);
  differences_.clear();
  for (auto& due : due_) due.clear();
  for_each_index([&](Index index) {
    Channel& channel = channels_[index];
    const std::uint32_t next = channel.sent[parent].begin();
    drop(channel, self, next);
    std::swap(channel.sent[self], channel.sent[parent]);
    entries_[self] += channel.sent[self].entries();
    entries_[parent] -= channel.sent[self].entries();
    channel.unknown = (channel.unknown & ~set_of(self)) | set_of(parent);
    channel.reported.assign(due_.size(), next);
    channel.due = 0;
    mark_due(index, others());
  });
}

void SendComparison::close(ContextId context) {
  for_each_index([&](Index index) {
    if (channels_.key(index).context != context) return;
    channels_[index].is_closed = true;
    compare(index);
  });
}

}  // namespace rdmc::replica
