// The binomial pipeline (RDMC, section 3): in each step every member of a hypercube sends one block and
// receives another one. So a message takes blocks - 1 + ceil(log2 members) steps, and no plan can take
// fewer. A plain value that any thread may use.
#pragma once

#include "dataplane/relay/plan.hpp"

namespace rdmc::relay {

class BinomialPipeline {
 public:
  /// Precondition: rank < members.
  BinomialPipeline(Rank rank, std::uint32_t members) : rank_(value_of(rank)), members_(members) {}
  BinomialPipeline of(Rank rank) const { return {rank, members_}; }

  std::uint64_t steps(std::uint64_t blocks) const { return least_steps(members_, blocks); }
  /// Takes O(log members) time.
  StepTransfers at(std::uint64_t step, std::uint64_t blocks) const;
  std::optional<Transfer> first_receive(std::uint64_t blocks) const;
  std::vector<Rank> sources() const { return peers(false, true); }
  std::vector<Rank> destinations() const { return peers(true, false); }
  std::optional<std::uint64_t> next_receive_from(Rank source, std::uint64_t step, std::uint64_t blocks) const;
  std::optional<std::uint64_t> next_send(std::uint64_t step, std::uint64_t end, std::uint64_t blocks) const {
    return first_step(step, end, [&](std::uint64_t at_step) { return at(at_step, blocks).send.has_value(); });
  }
  Pace pace() const { return {.stride = 1, .lead = 0, .lag = members_ == 1 ? 0 : depth_of(members_)}; }
  std::uint64_t minimum_slots() const {
    if (members_ == 1) return 1;
    return depth_of(members_) + (std::has_single_bit(members_) ? 0 : 1);
  }

  /// The member that can send `block` out of the group in step block + spare_lag(), because it holds the
  /// block and has nothing else to send in this step. This is the member to which the root sent the block.
  /// According to the hypercube, this member would send to the root in this step, but the root needs nothing.
  /// There is one exception: if the members of each vertex exchange their last blocks in this step, the
  /// result is the root itself. For block 0 the result is the same for every block count.
  std::uint32_t spare_sender(std::uint64_t block, std::uint64_t blocks) const;
  /// floor(log2 members).
  std::uint64_t spare_lag() const { return static_cast<std::uint64_t>(std::bit_width(members_)) - 1; }
  /// The spare senders of the blocks repeat with this period. The spare sender of the last block is an
  /// exception.
  std::uint64_t spare_period() const { return 2 * std::max<std::uint64_t>(spare_lag(), 1); }

 private:
  StepTransfers only_block(std::uint64_t step) const;
  std::vector<Rank> peers(bool of_sends, bool of_receives) const;

  std::uint32_t rank_;
  std::uint32_t members_;
};

static_assert(Plan<BinomialPipeline>);

}  // namespace rdmc::relay
