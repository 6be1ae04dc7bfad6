// Receives blocks: checks arrivals against the schedule, and makes grants and expected writes.
#include <algorithm>
#include <cassert>

#include "dataplane/relay/relay.hpp"

namespace rdmc::relay {

std::uint64_t Relay::block_at(std::uint64_t step) const {
  return schedule_.at(step, blocks_).receive->block;
}

Relay::Source* Relay::find_source(Rank rank) {
  const auto found = std::ranges::find(sources_, rank, &Source::rank);
  return found == sources_.end() ? nullptr : &*found;
}

/// Skips the first write of the first source, because the caller of offer_arena() has already posted a
/// receive for it.
void Relay::skip_arena_write() {
  Source& first = *find_source(first_.peer);
  first.expected_step = schedule_.next_receive_from(first.rank, *first.expected_step + 1, blocks_);
}

/// Returns the step of the block that `immediate` identifies, among the blocks that are due from `source`.
/// Usually it is the step after the newest one. Otherwise it is a step that was overtaken, or a step that
/// overtakes the steps before it.
std::optional<std::uint64_t> Relay::step_of(const Source& source, std::uint32_t immediate) const {
  const auto is_meant = [&](std::uint64_t step) {
    const std::uint64_t block = block_at(step);
    return ((immediate ^ block) & kBlockMask) == 0 && !holds(block);
  };
  auto step = schedule_.next_receive_from(source.rank, source.newest, blocks_);
  if (step && is_meant(*step)) return step;
  step = source.receive_step;
  for (std::uint32_t looked = 0; step && looked < kMostOvertaken; ++looked) {
    if (is_meant(*step)) return step;
    step = schedule_.next_receive_from(source.rank, *step + 1, blocks_);
  }
  return std::nullopt;
}

/// Moves `step` on to the first step whose block from `source` has not arrived.
void Relay::skip_held(Rank source, std::optional<std::uint64_t>& step) const {
  while (step && holds(block_at(*step))) step = schedule_.next_receive_from(source, *step + 1, blocks_);
}

/// Marks the blocks of `source` that are due before `step` and have not arrived.
void Relay::note_overtaken(Source& source, std::uint64_t step) {
  for (auto late = schedule_.next_receive_from(source.rank, source.newest, blocks_); late && *late < step;
       late = schedule_.next_receive_from(source.rank, *late + 1, blocks_)) {
    const std::uint64_t block = block_at(*late);
    if (!holds(block)) overtaken_[block % overtaken_.size()] = true;
  }
  source.newest = std::max(source.newest, step + 1);
}

Result<std::uint64_t> Relay::on_block(Rank from, std::uint32_t immediate, std::uint32_t byte_count) {
  const auto refuse = [](const char* what) { return fail(Errc::protocol_error, what); };
  if (cancelled_) return fail(Errc::cancelled, "relay: the message was cancelled");
  Source* const source = find_source(from);
  if (source == nullptr) return refuse("block: from a member that never sends to us");
  if (!has_length()) return refuse("block: before the message's length");
  if (!source->receive_step) return refuse("block: one too many");
  if (slot_id_of(immediate) != config_.slot_id) return refuse("block: of another message");
  const auto step = step_of(*source, immediate);
  if (!step) return refuse("block: not one that is due");
  const std::uint64_t block = block_at(*step);
  const bool is_left_out = byte_count == 0 && block_length(block) != 0 && !omitted_.empty();
  if (byte_count != block_length(block) && !is_left_out) return refuse("block: wrong length");
  const bool in_arena = arena_ == Arena::granted && first_.peer == from && block == first_.block;
  if (!in_arena && block >= source->granted) return refuse("block: not granted");

  if (in_arena) {
    arena_ = Arena::holds_first_block;
  } else if (!source->expected_step || *step < *source->expected_step) {
    --source->expected_writes;
  }
  if (memory_) {
    held_[block % held_.size()] = true;
    overtaken_[block % held_.size()] = false;
    if (is_left_out) omitted_[block % held_.size()] = true;
    note_overtaken(*source, *step);
  }
  skip_held(from, source->receive_step);
  ++received_;
  reached_ = std::max(reached_, block + 1);
  extend_window();
  return block;
}

bool Relay::poll_grant(Rank& to, BlockGrant& grant) {
  if (cancelled_) return false;
  if (arena_ == Arena::offered && !memory_) {
    arena_ = Arena::granted;
    if (has_length()) skip_arena_write();
    to = first_.peer;
    grant = {.limit = 1,
             .remote_address = arena_address_,
             .slots = 1,
             .key = arena_key_,
             .slot_id = config_.slot_id,
             .first_only = true};
    return true;
  }
  if (!memory_) return false;
  const std::uint64_t limit = memory_->slots >= blocks_ - released_ ? blocks_ : released_ + memory_->slots;
  for (Source& source : sources_) {
    if (!source.receive_step || limit <= source.granted) continue;
    if (limit < blocks_ && limit - source.granted < grant_batch_) continue;
    source.granted = limit;
    to = source.rank;
    grant = {.limit = limit,
             .remote_address = memory_->remote_address,
             .slots = memory_->slots,
             .key = memory_->key,
             .slot_id = config_.slot_id,
             .first_only = false};
    return true;
  }
  return false;
}

bool Relay::poll_expected_write(ExpectedWrite& expected_write) {
  if (cancelled_ || !memory_) return false;
  for (Source& source : sources_) {
    skip_held(source.rank, source.expected_step);
    if (!source.expected_step || source.expected_writes == kMostExpectedWrites) continue;
    const std::uint64_t block = block_at(*source.expected_step);
    if (block >= source.granted) continue;
    expected_write = {.from = source.rank,
                      .block = block,
                      .key = memory_->key,
                      .remote_address = memory_->remote_address + offset_of(block),
                      .bytes = block_length(block)};
    ++source.expected_writes;
    source.expected_step = schedule_.next_receive_from(source.rank, *source.expected_step + 1, blocks_);
    return true;
  }
  return false;
}

}  // namespace rdmc::relay
