// Sends blocks: handles grants from destinations and acknowledgements, and chooses the next write.
#include <algorithm>
#include <cassert>

#include "dataplane/relay/relay.hpp"

namespace rdmc::relay {

namespace {

bool fits_address_space(const BlockGrant& grant, std::uint64_t block_bytes) {
  std::uint64_t bytes = 0;
  std::uint64_t end = 0;
  return !__builtin_mul_overflow(grant.slots, block_bytes, &bytes) &&
         !__builtin_add_overflow(grant.remote_address, bytes, &end);
}

}  // namespace

Result<void> Relay::on_grant(Rank from, const BlockGrant& grant) {
  const auto refuse = [](const char* what) { return fail(Errc::protocol_error, what); };
  if (cancelled_) return {};
  const auto found = std::ranges::find(destinations_, from, &Destination::rank);
  if (found == destinations_.end()) return refuse("grant: from a member that we never send to");
  if (grant.limit == 0 || grant.slots == 0) return refuse("grant: covers no block");
  if (!fits_address_space(grant, config_.block_bytes)) return refuse("grant: memory wraps around");
  if (grant.first_only) {
    if (grant.limit != 1 || grant.slots != 1) return refuse("grant: more than one block for a first block");
    if (found->arena || found->memory) return refuse("grant: a second or late one for the first block");
    if (first_source_needs_length(config_.algorithm))
      return refuse("grant: a first block's source depends on the length");
    if (schedule_.first_source_of(from, kMaxBlocks) != schedule_.rank())
      return refuse("grant: its first block is not ours");
    found->arena = grant;
    return {};
  }
  if (const auto& before = found->memory) {
    if (grant.limit < before->limit) return refuse("grant: shrinks");
    BlockGrant same = grant;
    same.limit = before->limit;
    if (same != *before) return refuse("grant: memory has changed");
  }
  found->memory = grant;
  return {};
}

/// Adds sends to the window, up to the last step in which a block that has arrived is sent.
void Relay::extend_window() {
  if (reached_ == 0) return;
  const std::uint64_t end = schedule_.sent_by(reached_ - 1, blocks_);
  while (window_.seen() < end && !window_.is_full()) {
    const auto step = schedule_.next_send(window_.seen(), end, blocks_);
    if (!step) return window_.skip_to(end);
    const auto send = schedule_.at(*step, blocks_).send;
    const auto to = std::ranges::lower_bound(destinations_, send->peer, {}, &Destination::rank);
    assert(to != destinations_.end() && to->rank == send->peer);
    window_.push({.step = *step,
                  .block = send->block,
                  .destination = static_cast<std::uint32_t>(to - destinations_.begin()),
                  .state = SendWindow::State::waiting});
  }
}

bool Relay::can_write(const Destination& destination, std::uint64_t block) const {
  if (!destination.started && destination.arena) return true;
  return destination.memory && block < destination.memory->limit;
}

bool Relay::was_overtaken(std::uint64_t block) const {
  return !overtaken_.empty() && block < released_ + overtaken_.size() &&
         overtaken_[block % overtaken_.size()];
}

/// The limit of writes in flight. It is high, because many writes are needed to fill the link of a long path.
/// But a block keeps its slot until its writes are acknowledged. So in a ring buffer the writes may use a
/// quarter of the slots, or 16 slots if that is more. If all blocks have slots, no member waits for a slot,
/// and only the configured limit counts.
std::uint32_t Relay::most_writes() const {
  constexpr std::uint64_t kAnyRing = 16;
  if (memory_ && memory_->slots >= blocks_) return config_.max_writes_in_flight;
  const std::uint64_t of_ring = std::max(kAnyRing, memory_ ? memory_->slots / 4 : 0);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(config_.max_writes_in_flight, of_ring));
}

/// The limit of writes in flight to one destination. One destination alone must not delay all others. But a
/// destination that has lost packets needs many writes to catch up. A straggler is informed of omitted blocks
/// only after the writes in flight to it, so for a straggler the limit is low.
std::uint32_t Relay::most_writes_to(const Destination& destination) const {
  const std::uint32_t most = most_writes();
  if (destination.is_straggler) return std::max(1U, most / 4);
  return destinations_.size() == 1 ? most : std::max(1U, most * 3 / 4);
}

/// True if `block` must be omitted because it would keep a slot that other blocks need soon. Blocks are
/// omitted in runs, because a file with few gaps is less work to complete. A run starts when the destination
/// is behind by more than a quarter of the slots, and it ends when the destination is behind by an eighth of
/// the slots or less. These limits leave space for the blocks with which other sources of the straggler are
/// behind. If all blocks have slots, no slot is needed soon. The result is also false at the root, whose ring
/// buffer is always full of blocks that were read in advance.
bool Relay::is_behind(const Destination& destination, std::uint64_t block) const {
  if (!destination.is_straggler || schedule_.is_root() || !memory_ || memory_->slots >= blocks_) return false;
  return (reached_ - block) * (destination.is_behind ? 8 : 4) > memory_->slots;
}

/// Omits blocks for stragglers. As soon as a block is omitted for a straggler, its slot is no longer kept for
/// this straggler. The straggler is informed later: only after it has granted memory for this block. On a
/// long path, this grant arrives late.
void Relay::omit_for_stragglers() {
  bool any = false;
  for (std::uint64_t at = window_.waiting_from(); at < window_.end(); ++at) {
    SendWindow::Send& send = window_[at];
    Destination& destination = destinations_[send.destination];
    if (!destination.is_straggler || send.state != SendWindow::State::waiting || !holds(send.block)) continue;
    destination.is_behind = is_behind(destination, send.block);
    if (!destination.is_behind) continue;
    send.state = SendWindow::State::omitted;
    any = true;
  }
  if (any) release();
}

/// Chooses the next write by these rules.
/// - A block that has not arrived delays only the writes to its own destination. Otherwise the link would be
///   idle while the block is late, and all later steps would be late, too. If a packet of the block was lost,
///   the block delays no other write.
/// - A slow destination delays only the writes to itself. A destination is slow if it has its share of the
///   writes in flight, or if its ring buffer is full. For a straggler, blocks are omitted before the
///   straggler blocks this member's ring buffer.
/// - A destination that has not sent its first grant delays all writes. When a message starts, its grant is
///   in flight. If the link were filled with blocks for the destinations that granted first, the pipeline
///   would become a series of unicasts.
bool Relay::poll_write(BlockWrite& write) {
  if (cancelled_) return false;
  if (has_stragglers_) omit_for_stragglers();
  const bool is_full = writes_in_flight_ - omissions_in_flight_ >= most_writes();
  if (is_full && !has_stragglers_) return false;
  ++write_polls_;
  for (std::uint64_t at = window_.waiting_from(); at < window_.end(); ++at) {
    SendWindow::Send& send = window_[at];
    if (!SendWindow::is_waiting(send)) continue;
    Destination& destination = destinations_[send.destination];
    if (destination.held_up_in == write_polls_) continue;  // The writes to one destination keep their order.
    const bool is_omitted = send.state == SendWindow::State::omitted;
    if (!is_omitted && !holds(send.block)) {
      // The first write to a destination may go to its arena, which accepts no other block. So no write may
      // overtake it.
      if (!destination.started || !was_overtaken(send.block)) destination.held_up_in = write_polls_;
      continue;
    }
    const bool is_granted = can_write(destination, send.block);
    const bool has_room = is_omitted ? destination.omissions < kMostOmissions
                                     : !is_full && destination.writes < most_writes_to(destination);
    if (is_granted && has_room) {
      fill_write(destination, send, write);
      return true;
    }
    if (!is_granted && !destination.memory && !destination.is_straggler) return false;
    destination.held_up_in = write_polls_;
  }
  return false;
}

void Relay::fill_write(Destination& destination, SendWindow::Send& send, BlockWrite& write) {
  const bool into_arena = !destination.started && destination.arena.has_value();
  const BlockGrant& grant = into_arena ? *destination.arena : *destination.memory;
  const bool is_omission = send.state == SendWindow::State::omitted;
  const bool from_arena = !is_omission && arena_ == Arena::holds_first_block && send.block == first_block();
  const std::uint64_t remote_slot = into_arena ? 0 : send.block % grant.slots;
  write = {.to = destination.rank,
           .block = send.block,
           .local_offset = from_arena ? 0 : offset_of(send.block),
           .remote_address = grant.remote_address + remote_slot * config_.block_bytes,
           .bytes = is_omission || is_omitted(send.block) ? 0 : block_length(send.block),
           .key = grant.key,
           .immediate = immediate_of(grant.slot_id, send.block),
           .from_arena = from_arena,
           .into_arena = into_arena};
  destination.started = true;
  ++(is_omission ? destination.omissions : destination.writes);
  if (is_omission)
    send.state = SendWindow::State::posted_omitted;
  else
    send.state = from_arena ? SendWindow::State::posted_from_arena : SendWindow::State::posted;
  window_.advance();
  ++writes_in_flight_;
  if (is_omission) ++omissions_in_flight_;
  if (from_arena) ++arena_writes_in_flight_;
}

void Relay::on_write_complete(Rank to, std::uint64_t block) {
  for (std::uint64_t at = window_.begin(); at < window_.end(); ++at) {
    SendWindow::Send& send = window_[at];
    const bool posted = send.state != SendWindow::State::done && !SendWindow::is_waiting(send);
    Destination& destination = destinations_[send.destination];
    if (!posted || send.block != block || destination.rank != to) continue;
    const bool is_omission = send.state == SendWindow::State::posted_omitted;
    if (send.state == SendWindow::State::posted_from_arena) --arena_writes_in_flight_;
    if (is_omission) --omissions_in_flight_;
    --writes_in_flight_;
    --(is_omission ? destination.omissions : destination.writes);
    ++destination.writes_done;
    send.state = SendWindow::State::done;
    written_ = std::max(written_, block + 1);
    window_.advance();
    if (!cancelled_) release();
    return;
  }
  assert(!"a completion without its write");
}

}  // namespace rdmc::relay
