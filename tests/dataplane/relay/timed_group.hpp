// A whole group of relays in virtual time. A block occupies the outgoing link of its sender for one block
// time, and then the incoming link of its receiver for one block time. Each link carries blocks in the order
// in which they were posted. A block arrives one latency later. Grants and acknowledgements take one latency.
// One pair of members may have a slower path.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <queue>
#include <vector>

#include "dataplane/relay/relay.hpp"
#include "tests/dataplane/relay/plans.hpp"

namespace rdmc::relay {

struct TimedOptions {
  GroupPlan plan;
  std::uint64_t blocks = 1;
  /// The number of slots in a receiver's ring buffer. It is limited to the number of blocks of the message.
  std::uint64_t slots = ~std::uint64_t{0};
  std::uint32_t writes_in_flight = 16;
  double latency = 0.1;  ///< The latency in block times.
  /// The sender and the receiver of the slow path, on which a block takes slow_factor block times.
  std::uint32_t slow_from = 0, slow_to = 0;
  double slow_factor = 1;
};

class TimedGroup {
 public:
  explicit TimedGroup(const TimedOptions& options) : options_(options) {
    for (std::uint32_t rank = 0; rank < options.plan.members; ++rank) {
      members_.push_back({.relay = *Relay::create({.algorithm = options.plan.algorithm,
                                                   .rank = Rank{rank},
                                                   .members = options.plan.members,
                                                   .racks = options.plan.racks,
                                                   .block_bytes = 1,
                                                   .max_writes_in_flight = options.writes_in_flight})});
      (void)members_.back().relay.set_length(options.blocks);
      (void)members_.back().relay.set_memory({.slots = std::min(options.slots, options.blocks)});
    }
    members_[0].relay.on_available(options.blocks);
  }

  /// Returns for each receiver the time at which it has the last block, in block times. The receivers are in
  /// the order of their ranks. 0 means that the receiver never has the last block.
  std::vector<double> run() {
    std::vector<double> delivered(members_.size(), 0.0);
    for (std::size_t i = 0; i < members_.size(); ++i) drain(i);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      event.happen();
      for (const std::size_t i : touched_) {
        drain(i);
        if (delivered[i] == 0 && members_[i].relay.is_delivered()) delivered[i] = now_;
      }
      touched_.clear();
    }
    delivered.erase(delivered.begin());
    return delivered;
  }

 private:
  struct Member {
    Relay relay;
    double out_free = 0, in_free = 0;
  };
  struct Event {
    double at;
    std::uint64_t order;
    std::function<void()> happen;
    bool operator<(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
  };

  void post(double at, std::size_t touches, std::function<void()> happen) {
    events_.push({at, next_order_++, [this, touches, happen = std::move(happen)] {
                    happen();
                    touched_.push_back(touches);
                  }});
  }

  double block_time(std::size_t from, std::size_t to) const {
    const bool slow = from == options_.slow_from && to == options_.slow_to;
    return slow ? options_.slow_factor : 1;
  }

  void drain(std::size_t i) {
    Relay& relay = members_[i].relay;
    Rank to{};
    for (BlockGrant grant; relay.poll_grant(to, grant);) {
      const std::size_t source = value_of(to);
      post(now_ + options_.latency, source, [this, i, source, grant] {
        (void)members_[source].relay.on_grant(Rank{static_cast<std::uint32_t>(i)}, grant);
      });
    }
    for (BlockWrite write; relay.poll_write(write);) send(i, write);
  }

  void send(std::size_t from, const BlockWrite& write) {
    const std::size_t to = value_of(write.to);
    const double time = block_time(from, to);
    double& out = members_[from].out_free;
    out = std::max(out, now_) + time;
    // The block is streamed: the incoming link is already occupied while the block arrives.
    post(out - time + options_.latency, to, [this, from, to, write, time] {
      double& in = members_[to].in_free;
      in = std::max(in, now_) + time;
      post(in, to, [this, from, to, write] { arrive(from, to, write); });
    });
  }

  void arrive(std::size_t from, std::size_t to, const BlockWrite& write) {
    Relay& relay = members_[to].relay;
    if (relay.on_block(Rank{static_cast<std::uint32_t>(from)}, write.immediate, write.bytes))
      relay.on_consumed(write.block);
    post(now_ + options_.latency, from,
         [this, from, write] { members_[from].relay.on_write_complete(write.to, write.block); });
  }

  TimedOptions options_;
  std::vector<Member> members_;
  std::priority_queue<Event> events_;
  std::vector<std::size_t> touched_;
  double now_ = 0;
  std::uint64_t next_order_ = 0;
};

}  // namespace rdmc::relay
