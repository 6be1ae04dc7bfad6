// Which block goes from whom to whom in which step: the plan that every member of a group computes for
// itself, so that a message needs no negotiation. Pure values: a Schedule holds a few integers, owns nothing,
// and any thread may use a const one. Rank 0 is the root; who that is, and in which order the others follow,
// is the group's choice.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/base/types.hpp"

namespace rdmc::relay {

enum class Algorithm : std::uint8_t {
  binomial_pipeline,  ///< RDMC, section 3: along a hypercube, optimal in steps for every number of members
};

/// One block on its way: to `peer` when it is a send, from `peer` when it is a receive.
struct Transfer {
  Rank peer{};
  std::uint64_t block = 0;
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

/// What one member does in one step: at most one send and one receive.
struct StepTransfers {
  std::optional<Transfer> send;
  std::optional<Transfer> receive;
  friend bool operator==(const StepTransfers&, const StepTransfers&) = default;
};

/// One member's part. `blocks` is the block count of a message everywhere, 1 ... kMaxBlocks.
class Schedule {
 public:
  static constexpr std::uint64_t kMaxBlocks = std::uint64_t{1} << 62;
  static constexpr std::uint32_t kMaxMembers = std::uint32_t{1} << 24;

  /// 1 <= members <= kMaxMembers, rank < members (asserted).
  Schedule(Algorithm algorithm, Rank rank, std::uint32_t members);

  Rank rank() const { return Rank{rank_}; }
  std::uint32_t members() const { return members_; }
  bool is_root() const { return rank_ == 0; }

  /// blocks - 1 + ceil(log2 members), which no algorithm can undercut (Bar-Noy and Kipnis 1994); 0 for one
  /// member.
  std::uint64_t steps(std::uint64_t blocks) const;

  /// What this member does in `step` (< steps(blocks)). O(log members).
  StepTransfers at(std::uint64_t step, std::uint64_t blocks) const;

  /// The first block that this member receives, and from whom; nothing for the root. The source does not
  /// depend on the block count and the block only by min(block, blocks - 1), so memory can be granted before
  /// a length is known.
  std::optional<Transfer> first_receive(std::uint64_t blocks) const;
  /// Who sends `member` its first block; nothing for the root. A member tells the length of a message to
  /// those whose first source it is, before their first block.
  std::optional<Rank> first_source_of(Rank member) const;

  /// Every member that this one may ever receive from / send to / either, ascending. O(log members) of them.
  std::vector<Rank> sources() const;
  std::vector<Rank> destinations() const;
  std::vector<Rank> neighbours() const;

  /// The first step >= `step` in which this member receives from `source`; nothing when there is none.
  std::optional<std::uint64_t> next_receive_from(Rank source, std::uint64_t step, std::uint64_t blocks) const;

  /// No block b but the last one is sent by anybody after step b + send_lag().
  std::uint64_t send_lag() const;
  /// The least slots of a receiver's ring with which nobody ever waits for one while all members go in step:
  /// exact. Waits always lead to earlier steps, so no ring of at least this size deadlocks however the
  /// members drift.
  std::uint64_t minimum_slots() const;

 private:
  StepTransfers only_block(std::uint64_t step) const;

  Algorithm algorithm_;
  std::uint32_t rank_;
  std::uint32_t members_;
};

}  // namespace rdmc::relay
