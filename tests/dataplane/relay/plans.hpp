// The plans of all members of a group, and the invariants that hold for every algorithm.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/relay/schedule.hpp"

namespace rdmc::relay {

struct GroupPlan {
  Algorithm algorithm = Algorithm::binomial_pipeline;
  std::uint32_t members = 1;
  Racks racks{};

  Schedule of(std::uint32_t rank) const { return {algorithm, Rank{rank}, members, racks}; }
  std::vector<Schedule> all() const {
    std::vector<Schedule> schedules;
    for (std::uint32_t rank = 0; rank < members; ++rank) schedules.push_back(of(rank));
    return schedules;
  }
  std::string words() const {
    std::string text(to_string(algorithm));
    text += " of " + std::to_string(members);
    for (const Rack& rack : racks.all())
      text += (rack.head == 0 ? " in racks of " : ",") + std::to_string(rack.members);
    return text;
  }
};

inline GroupPlan in_racks(const std::vector<std::uint32_t>& sizes, Algorithm algorithm = Algorithm::hybrid) {
  const auto racks = Racks::of(sizes);
  return {algorithm, racks->members(), *racks};
}

inline GroupPlan in_hosts(const std::vector<std::uint32_t>& sizes,
                          Algorithm algorithm = Algorithm::host_pipeline) {
  return in_racks(sizes, algorithm);
}

/// Goes through a group's plan of one message, step by step. Stores a description of the first broken
/// invariant.
class Walk {
 public:
  Walk(const GroupPlan& plan, std::uint64_t blocks)
      : all_(plan.all()), blocks_(blocks), now_(plan.members), first_(plan.members) {
    held_.assign(plan.members, std::vector<bool>(blocks, false));
    held_[0].assign(blocks, true);
    for (const Schedule& one : all_) {
      sources_.push_back(one.sources());
      destinations_.push_back(one.destinations());
    }
  }

  /// Returns the first broken invariant, or an empty string if there is none.
  std::string broken_invariant() {
    const std::uint64_t steps = all_[0].steps(blocks_);
    for (const Schedule& one : all_) expect(one.steps(blocks_) == steps, "members count different steps");
    for (std::uint64_t step = 0; step < steps && broken_.empty(); ++step) walk(step);
    for (std::size_t rank = 0; rank < all_.size() && broken_.empty(); ++rank) look_back(rank);
    return broken_;
  }

 private:
  void expect(bool holds, const char* otherwise) {
    if (!holds && broken_.empty()) broken_ = otherwise;
  }

  void walk(std::uint64_t step) {
    for (std::size_t rank = 0; rank < all_.size(); ++rank) now_[rank] = all_[rank].at(step, blocks_);
    std::size_t sends = 0, receives = 0;
    for (std::size_t rank = 0; rank < all_.size(); ++rank) {
      if (const auto& send = now_[rank].send) ++sends, check_send(rank, *send, step);
      if (const auto& receive = now_[rank].receive) ++receives, check_receive(rank, *receive);
    }
    expect(sends == receives, "a receive without its send");
    for (std::size_t rank = 0; rank < all_.size(); ++rank)
      if (const auto& receive = now_[rank].receive) held_[rank][receive->block] = true;
  }

  void check_send(std::size_t rank, const Transfer& send, std::uint64_t step) {
    const std::size_t to = value_of(send.peer);
    if (to >= all_.size() || to == rank) return expect(false, "a send to nobody");
    expect(now_[to].receive == Transfer{all_[rank].rank(), send.block}, "send and receive disagree");
    expect(held_[rank][send.block], "a block is sent before it is held");
    expect(!held_[to][send.block], "a block is delivered twice");
    expect(std::ranges::binary_search(destinations_[rank], send.peer), "an undeclared destination");
    const Pace pace = all_[rank].pace();
    expect(step >= send.block * pace.stride, "a block before its time");
    expect(step < all_[rank].sent_by(send.block, blocks_), "a send after the last");
    if (send.block + 1 < blocks_)
      expect(step >= send.block * pace.stride + pace.lead, "a send before the lead");
  }

  void check_receive(std::size_t rank, const Transfer& receive) {
    if (!first_[rank]) first_[rank] = receive;
    expect(std::ranges::binary_search(sources_[rank], receive.peer), "an undeclared source");
  }

  void look_back(std::size_t rank) {
    expect(std::ranges::find(held_[rank], false) == held_[rank].end(), "a block is missing");
    expect(first_[rank] == all_[rank].first_receive(blocks_), "the first receive is another");
    const auto source = all_[0].first_source_of(all_[rank].rank(), blocks_);
    expect(source.has_value() == first_[rank].has_value(), "a first source without a receive");
    if (source && first_[rank]) expect(*source == first_[rank]->peer, "the first source is another");
  }

  std::vector<Schedule> all_;
  std::uint64_t blocks_;
  std::vector<std::vector<bool>> held_;
  std::vector<std::vector<Rank>> sources_, destinations_;
  std::vector<StepTransfers> now_;
  std::vector<std::optional<Transfer>> first_;
  std::string broken_;
};

/// Returns the number of slots with which no member waits for a free slot, if all members make each step at
/// the same time. A block may be received in step t only if its slot is free. The slot is free if this member
/// neither sends nor receives, in step t or later, the block that had the slot before or an earlier block.
inline std::uint64_t slots_needed(const GroupPlan& plan, std::uint64_t blocks) {
  std::uint64_t most = 1;
  for (const Schedule& one : plan.all()) {
    if (one.is_root()) continue;
    // The lowest block that is sent or received in this step or a later one.
    std::uint64_t lowest_ahead = blocks;
    for (std::uint64_t step = one.steps(blocks); step-- > 0;) {
      const auto [send, receive] = one.at(step, blocks);
      if (send) lowest_ahead = std::min(lowest_ahead, send->block);
      if (!receive) continue;
      lowest_ahead = std::min(lowest_ahead, receive->block);
      most = std::max(most, receive->block - lowest_ahead + 1);
    }
  }
  return most;
}

}  // namespace rdmc::relay
